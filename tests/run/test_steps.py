"""A run that ends before anything was sent: at once, and without a trace."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

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
WRONG = QUICK.replace("echo hello", "python3 wrong.py")
# Far below the time-out of a login, far above what a command takes on a busy machine.
SOON_S = 12.0


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing: a login there hangs for its deadline."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield int(listener.getsockname()[1])


@pytest.fixture
def hanging(project: Project, silent_port: int) -> Project:
    project.write("quick.yaml", QUICK)
    project.write(
        "hosts.yaml",
        f"hosts:\n  far: {{ssh: 'me@127.0.0.1:{silent_port}', connect_timeout: 60s}}\n",
    )
    return project


@pytest.fixture
def filtered(project: Project) -> Project:
    """A working copy whose snapshot takes a minute."""
    project.write("quick.yaml", QUICK)
    project.write(".gitattributes", "*.slow filter=slow\n")
    project.write("one.slow", "content\n")
    project.git("config", "filter.slow.clean", f"touch '{project.home / 'begun'}'; sleep 60; cat")
    return project


def git_litter(project: Project) -> list[str]:
    return [path.name for path in (project.path / ".git").glob("orch-index-*")]


class TestALoginThatHangs:
    def test_a_refusal_of_preflight_does_not_wait_for_it(self, hanging: Project) -> None:
        hanging.write("wrong.yaml", WRONG)
        hanging.write("wrong.py", "def f(:\n")
        begun = time.monotonic()

        done = hanging.orch("run", "wrong.yaml", "--host", "far")

        assert done.code == 4, done.text
        assert time.monotonic() - begun < SOON_S

    def test_ctrl_c_does_not_wait_for_it(self, hanging: Project) -> None:
        controller = hanging.start("run", "quick.yaml", "--host", "far")
        until_said(controller, "tree")
        out, took_s = interrupted(controller)

        assert "nothing was started" in out
        assert took_s < SOON_S
        assert hanging.runs == []


class TestASnapshotThatIsSlow:
    def test_ctrl_c_stops_git_and_leaves_nothing(self, filtered: Project) -> None:
        controller = filtered.start("run", "quick.yaml", "--host", "local")
        end = time.monotonic() + COMMAND_DEADLINE_S
        while not (filtered.home / "begun").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        _, took_s = interrupted(controller)

        assert took_s < SOON_S
        assert git_litter(filtered) == []

    def test_a_refusal_of_preflight_does_not_wait_for_it(self, filtered: Project) -> None:
        filtered.write("wrong.yaml", WRONG)
        filtered.write("wrong.py", "def f(:\n")
        begun = time.monotonic()

        done = filtered.orch("run", "wrong.yaml", "--host", "local")

        assert done.code == 4, done.text
        assert time.monotonic() - begun < SOON_S
        assert git_litter(filtered) == []


def test_a_run_that_cannot_be_sealed_leaves_no_directory(project: Project) -> None:
    project.write("quick.yaml", QUICK)
    project.write(".git/refs/orch", "in the way")

    done = project.orch("run", "quick.yaml", "--host", "local")

    assert done.code == 2, done.text
    left = [path.name for path in (project.path / "artifacts").iterdir()]
    assert left == [".gitignore"]
