"""A supervisor is on its own from the start, begins on one word, and says why it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from orchestrator.agent.layout import Root
from tests.agent.controller import ROOT, RUN_ID, job, plan, supervisor_pid, wait_until
from tests.agent.test_follow import attach, folder, start, wait_script

PROGRAM = """
import os, sys
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.launch import Launch, Refusal
from orchestrator.agent.layout import Root
from orchestrator.agent.plan import Plan
root, action = Root(sys.argv[1]), sys.argv[2]
plan = Plan.from_json(sys.stdin.read())
link = Conversation(os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
launch = Launch(link, root, root.run(plan.run_id), plan, {})
try:
    getattr(launch, action)()
    print("done")
except Refusal as refusal:
    print(refusal.code, refusal)
"""


def launch(root: Path, action: str, *, run_is_there: bool = True) -> str:
    """What a session says of a supervisor that it started and then told so."""
    where = Root.at(str(root)).run(RUN_ID)
    if run_is_there:
        Path(where.tree).mkdir(parents=True)
        Path(where.manifest).write_bytes(b"")
    ordered = plan({}, job("one", "echo ran"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root), action],
        cwd=ROOT,
        input=ordered.to_json(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_on_the_word_go_the_run_has_started_when_it_returns(tmp_path: Path) -> None:
    assert launch(tmp_path, "go") == "done"

    events = Path(folder(tmp_path).journal).read_text("utf-8").splitlines()
    assert json.loads(events[0])["event"] == "run_started"
    wait_until(Path(folder(tmp_path).bundle_facts).exists, "the run to end")


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    said = launch(tmp_path, "go", run_is_there=False)

    assert said.startswith("no_start the supervisor did not start: ")
    assert "FileNotFoundError" in said
    assert RUN_ID in said


def test_one_that_is_abandoned_takes_its_run_along(tmp_path: Path) -> None:
    assert launch(tmp_path, "abandon") == "done"

    wait_until(lambda: not Path(folder(tmp_path).path).exists(), "the run to be removed")


def test_it_hangs_on_no_session_terminal_or_stream_of_who_started_it(tmp_path: Path) -> None:
    root, gate = tmp_path / "root", tmp_path / "gate"
    start(root, wait_script(gate))
    pid = supervisor_pid(folder(root))

    session = os.getsid(pid)
    streams = [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (0, 1, 2)]
    gate.touch()
    attach(root)

    assert session not in (os.getsid(0), pid), "a session leader could still get a terminal"
    log = folder(root).supervisor_log
    assert streams == [os.devnull, log, log]
