"""The moment between a sealed run and a started one, and what is remembered of it."""

from __future__ import annotations

import os
import time

from orchestrator.link import agentzip
from orchestrator.spec.hosts import load_hosts
from orchestrator.store import sent
from orchestrator.store.sent import Sent
from tests.conftest import COMMAND_DEADLINE_S, Project, until_said
from tests.run.interrupted import interrupted

QUICK = """
experiment: quick
kind: probe
timeout: 30s
steps:
  - id: one
    run: echo hello
"""
# Far below what `orch` waits for the word of a host that may have begun.
SOON_S = 15.0


def test_ctrl_c_while_the_agent_itself_is_on_its_way(project: Project) -> None:
    project.write("quick.yaml", QUICK)
    project.write("hosts.yaml", "hosts:\n  deaf: {via: [sh, -c, exec sleep 60, --]}\n")
    controller = project.start("run", "quick.yaml", "--host", "deaf")
    until_said(controller, "] run ")
    # The pipe holds less than the agent: from here on nothing moves.
    end = time.monotonic() + COMMAND_DEADLINE_S
    while not (project.path / "artifacts" / ".visited").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    out, took_s = interrupted(controller)

    assert "nothing was started" in out
    assert took_s < SOON_S
    assert project.runs == []
    assert project.git("for-each-ref", "refs/orch/") == ""


def test_a_memory_that_cannot_be_kept_is_told_and_no_obstacle(project: Project) -> None:
    project.write("quick.yaml", QUICK)
    (project.path / "artifacts" / ".visited").mkdir(parents=True)

    done = project.orch("run", "quick.yaml", "--host", "local")

    assert done.code == 0, done.text
    assert "what local was sent cannot be noted: Is a directory" in done.out


def test_a_host_without_a_connection_is_tried_once(project: Project) -> None:
    """The agent is believed to be there; that ssh failed has another reason."""
    project.write("quick.yaml", QUICK)
    tries = project.home / "tries"
    script = f"#!/bin/sh\necho x >> '{tries}'\necho no route >&2\nexit 255\n"
    program = project.write("bin/ssh", script)
    program.chmod(0o755)
    hosts = project.write("hosts.yaml", "hosts:\n  far: {openssh: far}\n")
    (project.path / "artifacts").mkdir()
    place = load_hosts([hosts])["far"].place
    sent.note(project.path / "artifacts", place, Sent("?", agentzip.name()))

    done = project.orch(
        "run", "quick.yaml", "--host", "far", PATH=f"{program.parent}:{os.environ['PATH']}"
    )

    assert done.code == 5, done.text
    assert tries.read_text("ascii") == "x\n"
    assert project.runs == []
