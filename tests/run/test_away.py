"""A run while the laptop goes away: killed, cut off, Ctrl-C, and the host lost."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.conftest import COMMAND_DEADLINE_S, Project, until_said
from tests.hosts.smalldisk import grow, small_disk
from tests.hosts.sshd import SshServer

SLOW = """
experiment: slow
kind: probe
timeout: 60s
env: {GATE: "<gate>"}
steps:
  - id: wait
    run: |
      echo begun
      while [ ! -e "$GATE" ]; do sleep 0.05; done
  - id: after
    run: echo after; echo kept > "$ORCH_OUT/file.txt"
"""


@pytest.fixture
def slow(project: Project) -> Project:
    project.write("slow.yaml", SLOW.replace("<gate>", str(project.home / "go")))
    return project


def wait_until(condition: object, what: str) -> None:
    """Wait for something another process does; a deadline instead of a fixed sleep."""
    end = time.monotonic() + COMMAND_DEADLINE_S
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for: {what}")


def begun(project: Project) -> bool:
    logs = list((project.home / ".orch" / "runs").glob("*/steps/wait/log"))
    return bool(logs) and b"begun" in logs[-1].read_bytes()


class TestWhenTheLaptopGoesAway:
    def test_a_killed_controller_changes_nothing_on_the_host(
        self, slow: Project, trusted_ssh: SshServer
    ) -> None:
        hosts = trusted_ssh.hosts_yaml("there", "ssh", root=slow.home / ".orch")
        slow.write("hosts.yaml", hosts)
        controller = slow.start("run", "slow.yaml", "--host", "there")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)

        early = slow.orch("fetch", "latest")
        (slow.home / "go").touch()
        attached = slow.orch("attach", "latest")

        assert early.code == 3
        assert "still running" in early.err
        assert attached.code == 0, attached.text
        assert slow.orch("verify", "latest").code == 0
        assert slow.log("after") == "after\n"

    def test_a_run_that_ended_meanwhile_is_fetched_complete(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)
        (slow.home / "go").touch()
        host_bundle = slow.home / ".orch" / "runs" / slow.last_run.name / "bundle.json"
        wait_until(host_bundle.exists, "the run to end on the host")

        done = slow.orch("fetch", "latest")

        assert done.code == 0, done.text
        assert (slow.last_run / "evidence" / "steps" / "after" / "out" / "file.txt").is_file()
        assert slow.orch("verify", "latest").code == 0

    def test_gc_on_the_host_keeps_it_until_it_is_home(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)
        (slow.home / "go").touch()
        run_id = slow.last_run.name
        there = slow.home / ".orch" / "runs" / run_id
        wait_until((there / "bundle.json").exists, "the run to end on the host")
        sweep = ("gc", "--host", "local", "--older-than", "1ms")

        kept = slow.orch(*sweep)
        would = slow.orch(*sweep, "--unfetched", "--dry-run")
        fetched = slow.orch("fetch", run_id)
        wait_until((there / "sent_home").exists, "the host to hear that it is home")
        gone = slow.orch(*sweep)

        assert f"kept {run_id}: never brought home; `orch fetch {run_id}" in kept.out
        assert f"would remove {run_id}" in would.out
        assert fetched.code == 0, fetched.text
        assert f"removed {run_id}" in gone.out
        assert not there.exists()

    def test_a_cut_link_is_mended_and_nothing_is_lost(
        self, slow: Project, trusted_ssh: SshServer
    ) -> None:
        hosts = trusted_ssh.hosts_yaml("there", "ssh", root=slow.home / ".orch")
        slow.write("hosts.yaml", hosts)
        controller = slow.start("run", "slow.yaml", "--host", "there")
        wait_until(lambda: begun(slow), "the first step to begin")

        trusted_ssh.drop_connections()
        (slow.home / "go").touch()
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 0, out + err
        assert "the link broke" in out
        assert "the link holds again" in out
        assert slow.orch("verify", "latest").code == 0

    def test_ctrl_c_detaches_and_says_how_to_go_on(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        until_said(controller, "wait: started")

        controller.send_signal(signal.SIGINT)
        out, _ = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 130
        assert f"orch attach {slow.last_run.name}" in out
        assert f"orch cancel {slow.last_run.name}" in out
        assert slow.orch("cancel", "latest").code == 0
        assert slow.orch("attach", "latest").code == 6

    def test_a_second_ctrl_c_cancels_and_still_brings_everything_home(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        until_said(controller, "wait: started")

        controller.send_signal(signal.SIGINT)
        until_said(controller, "press Ctrl-C again")
        controller.send_signal(signal.SIGINT)
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 6, out + err
        assert slow.ended("wait")["state"] == "cancelled"
        assert slow.ended("after")["state"] == "cancelled"
        assert slow.orch("verify", "latest").code == 0

    def test_a_killed_supervisor_is_host_lost_not_failed(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        host_folder = slow.home / ".orch" / "runs" / slow.last_run.name
        pid = json.loads((host_folder / "supervisor.json").read_text("utf-8"))["pid"]

        os.kill(pid, signal.SIGKILL)
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 3, out + err
        assert slow.ended("wait")["state"] == "host_lost"
        assert slow.ended("after")["state"] == "not_started"
        assert slow.orch("verify", "latest").code == 0


LARGE = """
experiment: large
kind: probe
timeout: 60s
steps:
  - id: write
    run: head -c 6000000 /dev/urandom > "$ORCH_OUT/large.bin"
"""


def test_a_full_disk_here_leaves_the_run_there_to_be_fetched(project: Project) -> None:
    project.write("large.yaml", LARGE)
    artifacts = project.path / "artifacts"
    with small_disk(artifacts, 4):
        run = project.orch("run", "large.yaml")

        run_id = project.last_run.name
        assert run.code == 3, run.text
        assert "No space left on device; the run and its evidence are safe at local" in run.text
        assert f"fix: make room, then orch fetch {run_id}" in run.text

        grow(artifacts, 40)
        assert project.orch("fetch", run_id).code == 0
        assert project.orch("verify", run_id).code == 0
