"""Who belongs to a tree, and how it is emptied: against real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import processes
from orchestrator.agent.processes import Process

ROOT = Path(__file__).resolve().parent.parent.parent


def in_a_process_of_its_own(program: str) -> Any:
    """Run a program that prints JSON, as a subreaper without other children."""
    head = (
        "import json, os, signal, subprocess, sys, time\nfrom orchestrator.agent import processes\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + "processes.become_subreaper()\n" + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestTable:
    def test_holds_ourselves_and_our_parent(self) -> None:
        found = processes.table()

        mine = found[os.getpid()]
        assert mine.parent == os.getppid()
        assert mine.group == os.getpgrp()
        assert mine.state in "RS"

    def test_a_name_with_brackets_and_blanks_is_read(self, tmp_path: Path) -> None:
        program = tmp_path / "a) (b c"
        program.symlink_to("/bin/sleep")
        process = subprocess.Popen([str(program), "30"])
        try:
            found = processes.table()[process.pid]
        finally:
            process.kill()
            process.wait(10)

        assert found.parent == os.getpid()
        assert found.name in ("a) (b c", "sleep")

    def test_without_proc_ps_has_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(processes, "HAS_PROC", False)

        mine = processes.table()[os.getpid()]

        assert (mine.parent, mine.group) == (os.getppid(), os.getpgrp())
        assert processes.marked("anything") == []


TABLE = {
    pid: Process(pid, parent, 0, state, str(pid))
    for pid, parent, state in [
        (2, 1, "S"),
        (3, 2, "S"),
        (4, 3, "Z"),
        (5, 4, "S"),
        (6, 2, "D"),
        (7, 9, "S"),
    ]
}


class TestDescendants:
    def test_are_all_below_but_zombies_children_first(self) -> None:
        found = [process.pid for process in processes.descendants(1, TABLE)]

        assert found == [2, 3, 6, 5]

    def test_of_nobody(self) -> None:
        assert processes.descendants(99, TABLE) == []


class TestMarked:
    def test_finds_a_process_that_is_not_ours_by_its_environment(self) -> None:
        """As a daemon that was running before would start it."""
        env = {**os.environ, processes.MARK: "run-x/3"}
        process = subprocess.Popen(["sleep", "30"], env=env, start_new_session=True)
        other = subprocess.Popen(["sleep", "30"], env={**env, processes.MARK: "run-x/33"})
        try:
            found = wait_until_marked("run-x/3")
        finally:
            for one in (process, other):
                one.kill()
                one.wait(10)

        assert found == [process.pid]

    def test_is_gone_when_it_has_ended(self) -> None:
        assert processes.marked("run-x/no-such") == []


def wait_until_marked(mark: str) -> list[int]:
    """The environment can be read once the new program runs."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = processes.marked(mark)
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"nobody carries {mark}")


class TestCatches:
    def test_tells_a_handler_from_none(self) -> None:
        program = (
            "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: None); "
            "print('ready', flush=True); sys.stdin.read()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        answers = [processes.catches(process.pid, n) for n in (signal.SIGUSR1, signal.SIGUSR2)]
        process.communicate(timeout=10)

        assert answers == [True, False]
        assert not processes.catches(process.pid, signal.SIGUSR1)


class TestSending:
    def test_to_one_that_is_gone_is_no_error(self) -> None:
        process = subprocess.Popen(["true"])
        process.wait(10)

        processes.send([process.pid], signal.SIGTERM)

        assert not processes.is_alive(process.pid)


class TestKillingAll:
    def test_empties_a_tree_that_keeps_forking(self) -> None:
        found = in_a_process_of_its_own(
            """
bomb = "trap '' TERM; for n in 1 2 3; do ( while :; do sleep 0.01 & wait; done ) & done; wait"
leader = subprocess.Popen(["setsid", "bash", "-c", bomb], env={**os.environ, "ORCH_JOB": "t/0"})
time.sleep(0.3)
before = len(processes.members("t/0"))
left = processes.kill_all("t/0", lambda pid, status: None, 10.0)
print(json.dumps([before > 3, [p.name for p in left], len(processes.members("t/0"))]))
"""
        )

        assert found == [True, [], 0]

    def test_tells_who_exits_and_how(self) -> None:
        found = in_a_process_of_its_own(
            """
child = subprocess.Popen(["sleep", "60"])
seen = []
processes.kill_all("t/0", lambda pid, status: seen.append([pid, os.WTERMSIG(status)]), 10.0)
print(json.dumps(seen == [[child.pid, 9]]))
child.returncode = 0
"""
        )

        assert found is True

    def test_names_who_survives_the_deadline(self) -> None:
        """Nobody can be made to sleep uninterruptibly on order; a stranger's KILL is held back."""
        found = in_a_process_of_its_own(
            """
processes.send = lambda pids, number: None
child = subprocess.Popen(["sleep", "60"])
left = processes.kill_all("t/0", lambda pid, status: None, 0.2)
child.kill()
child.wait(10)
print(json.dumps([p.name for p in left]))
"""
        )

        assert found == ["sleep"]

    def test_leaves_strangers_alone(self) -> None:
        found = in_a_process_of_its_own(
            """
stranger = subprocess.Popen(["sleep", "60"])
mine = subprocess.Popen(["sleep", "60"])
left = processes.kill_all("t/0", lambda pid, status: None, 5.0, [stranger.pid])
alive = [processes.is_alive(stranger.pid), processes.is_alive(mine.pid)]
mine.returncode = 0
stranger.kill()
stranger.wait(10)
print(json.dumps([left, alive]))
"""
        )

        assert found == [[], [True, False]]


class TestReaping:
    def test_says_when_no_child_is_left(self) -> None:
        found = in_a_process_of_its_own(
            """
answers = [processes.reap(lambda *_: None)]
child = subprocess.Popen(["sleep", "60"])
answers.append(processes.reap(lambda *_: None))
child.kill()
end = time.monotonic() + 10
seen = []
while not seen and time.monotonic() < end:
    done = processes.reap(lambda pid, status: seen.append(pid))
child.returncode = 0
answers += [done, seen == [child.pid]]
print(json.dumps(answers))
"""
        )

        assert found == [True, False, True, True]

    def test_an_orphan_becomes_ours(self) -> None:
        found = in_a_process_of_its_own(
            """
subprocess.run(["bash", "-c", "setsid sleep 60 & echo $! > /dev/null"])
orphans = processes.descendants(os.getpid())
processes.kill_all("t/0", lambda *_: None, 10.0)
print(json.dumps([len(orphans), orphans[0].parent == os.getpid()]))
"""
        )

        assert found == [1, True]
