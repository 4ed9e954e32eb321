"""What came home of jobs that hang, crash and refuse."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.conftest import Project


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The experiment that README shows, run once for all tests here."""
    root = Path(__file__).resolve().parent.parent.parent
    base = tmp_path_factory.mktemp("failures")
    (base / "home").mkdir()
    folder = base / "project"
    folder.mkdir()
    env = {"HOME": str(base / "home"), "PYTHONPATH": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    project = Project(folder, base / "home", env)
    project.git("init", "-q")
    for name in ("failures.yaml", "failing.py"):
        project.write(f"experiments/{name}", (root / "experiments" / name).read_bytes())
    done = project.orch("run", "experiments/failures.yaml")
    assert done.code == 1, done.text
    return project


class TestFailures:
    def test_the_log_of_a_hang_ends_with_the_stack_of_the_hanging_line(
        self, failures: Project
    ) -> None:
        log = failures.log("hang")

        stack = log[log.rindex("Current thread") :]
        assert "in wait_for_a_signal_that_never_comes" in stack
        assert stack.rstrip().endswith("in <module>")

    def test_an_escaped_grandchild_is_gone(self, failures: Project) -> None:
        pid = int(failures.log("hang").split("escaped grandchild ")[1].split()[0])

        assert not is_running(pid)

    def test_states_name_what_happened(self, failures: Project) -> None:
        states = {e["id"]: e["state"] for e in failures.events() if e["event"] == "step_ended"}

        assert states == {
            "hang": "timed_out",
            "crash": "failed",
            "refuse": "failed",
            "dependant": "skipped",
            "half-a-pipe": "failed",
            "later": "passed",
        }
        assert failures.ended("crash")["signal"] == "SEGV"
        assert failures.ended("refuse")["exit_code"] == 1

    def test_everything_is_in_the_zip(self, failures: Project) -> None:
        with zipfile.ZipFile(failures.last_run / "bundle.zip") as bundle:
            names = set(bundle.namelist())

        assert {f"steps/{s}/log" for s in ("hang", "crash", "refuse", "half-a-pipe")} <= names
        assert "steps/later/files/later.txt" in names
        assert {"environment.before.json", "environment.after.json", "journal.jsonl"} <= names


def is_running(pid: int) -> bool:
    try:
        state = (
            Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
        )
    except FileNotFoundError:
        return False
    return state != "Z"
