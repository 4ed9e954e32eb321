"""The processes of a run are held together by the best means there is; the journal says which."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import cgroup, processes
from orchestrator.agent.cgroup import Group, Unavailable
from tests.agent.controller import RUN_ID, Controller, Heard, job, plan, run, wait_until
from tests.agent.test_follow import attach, folder, kill_supervisor, start

FILES = {"a": b"x\n"}


@pytest.fixture
def groups() -> str:
    """Where control groups of this process would be made; skips where none may be."""
    try:
        Group.of_run(f"test-{os.getpid()}").remove()
    except Unavailable as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    return cgroup.own_folder()


def started(heard: Heard) -> dict[str, Any]:
    return next(e for e in heard.events if e["event"] == "run_started")


class TestWithControlGroups:
    def test_each_step_is_in_its_own_and_none_is_left(self, tmp_path: Path, groups: str) -> None:
        script = "grep ^0:: /proc/self/cgroup"

        heard = run(tmp_path, FILES, job("one", script), job("two", script))

        facts = started(heard)
        assert (facts["containment"], facts["no_cgroup"]) == ("cgroup", "")
        assert facts["cgroup"].startswith(f"{groups}/orch-{RUN_ID}-")
        (one,), (two,) = heard.ended("one")["tail"], heard.ended("two")["tail"]
        name = Path(facts["cgroup"]).name
        assert one.endswith(f"/{name}/0")
        assert two.endswith(f"/{name}/1")
        assert not Path(facts["cgroup"]).exists()

    @pytest.mark.usefixtures("groups")
    def test_what_hides_from_its_environment_does_not_outlive_a_killed_supervisor(
        self, tmp_path: Path
    ) -> None:
        """Neither child of anybody of ours nor marked: its group alone tells whose it is."""
        root = tmp_path / "root"
        hidden = lose_one_that_hides(root, tmp_path / "pid")

        heard = attach(root)

        wait_until(lambda: not _runs(hidden), "the hidden process to die")
        assert "sleep" in heard.ended("job0")["leftover"]
        assert not Path(started(heard)["cgroup"]).exists()
        assert Path(folder(root).bundle_facts).exists()

    @pytest.mark.usefixtures("groups")
    def test_nor_the_removal_of_its_run(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        hidden = lose_one_that_hides(root, tmp_path / "pid")
        group = json.loads(Path(folder(root).journal).read_text("utf-8").splitlines()[0])["cgroup"]
        assert Path(group).exists()

        with Controller(root) as controller:
            answer = controller.ask(
                "sweep", "swept", older_than_s=-60, keep_bytes=0, unfetched=True
            )

        assert [one["run_id"] for one in answer["runs"]] == [RUN_ID]
        wait_until(lambda: not _runs(hidden), "the hidden process to die")
        assert not Path(group).exists()

    @pytest.mark.usefixtures("groups")
    def test_a_deadline_kills_the_whole_group(self, tmp_path: Path) -> None:
        script = "trap '' TERM; for i in 1 2 3; do env -i setsid sleep 62.5 & done; sleep 62.5"

        heard = run(tmp_path, FILES, job("one", script, timeout_s=0.5))

        assert heard.ended("one")["state"] == "timed_out"
        assert heard.ended("one")["survivors"] == []
        assert not Path(started(heard)["cgroup"]).exists()


class TestWithoutThem:
    @pytest.fixture
    def read_only(self, tmp_path: Path, groups: str) -> str:
        """A Python whose agents see control groups as most containers do: read-only."""
        mount = next(
            line.split(" ")[1]
            for line in Path("/proc/mounts").read_text("utf-8").splitlines()
            if line.split(" ")[2] == "cgroup2"
        )
        enter = f"mount -o bind,remount,ro {mount}"
        if shutil.which("unshare") is None:
            pytest.skip("no `unshare` here to make a read-only view with")
        tried = subprocess.run(
            ["unshare", "-m", "sh", "-c", enter], capture_output=True, timeout=30
        )
        if tried.returncode != 0:
            pytest.skip(f"no read-only view can be made here: {tried.stderr.decode()}")
        wrapper = tmp_path / "python"
        line = f'exec unshare -m sh -c \'{enter} && exec "$@"\' -- "{sys.executable}" "$@"'
        wrapper.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        return str(wrapper)

    def test_the_subreaper_does_it_and_the_journal_says_so(
        self, tmp_path: Path, read_only: str
    ) -> None:
        root = tmp_path / "root"
        script = f"env -i setsid sleep 63.5 & echo $! > {tmp_path}/pid; grep ^0:: /proc/self/cgroup"
        with Controller(root, python=read_only) as controller:
            controller.push(plan(FILES, job("one", script)), FILES)
            controller.expect("started")
            heard = controller.follow()

        facts = started(heard)
        assert (facts["containment"], facts["cgroup"]) == ("subreaper", "")
        assert "Read-only file system" in facts["no_cgroup"]
        assert heard.ended("one")["state"] == "passed"
        assert "orch-" not in heard.ended("one")["tail"][0]
        assert len(heard.ended("one")["leftover"]) == 1
        assert not _runs(int((tmp_path / "pid").read_text("ascii")))
        assert heard.notes("warning") + heard.notes("error") == []


def lose_one_that_hides(root: Path, pid_file: Path) -> int:
    """Kill a supervisor whose step started a process that is not marked and not its child."""
    hide = f"env -i setsid bash -c 'echo $$ > {pid_file}.part; mv {pid_file}.part {pid_file};"
    start(root, f"{hide} exec sleep 61.125' & echo begun; sleep 60")
    wait_until(pid_file.exists, "the process that hides")
    hidden = int(pid_file.read_text("ascii"))
    kill_supervisor(root)
    assert processes.is_alive(hidden)
    return hidden


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie: nobody may reap what was orphaned here."""
    found = processes.table().get(pid)
    return found is not None and found.state != "Z"
