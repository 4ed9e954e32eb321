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


UNREADABLE = """
experiment: unreadable
kind: probe
timeout: 20s
steps:
  - id: tell
    rounds: 2
    run: |
      {command}
ledger: unreadable.ledger.yaml
"""

ONE = """
ledger: unreadable
entries:
  - id: m
    metric: m
    step: tell
    unit: "1"
    expect: {value: 1, exact: true}
    because: The step says so in every round.
    source: guess
    decides: nothing
"""

GOOD = """echo '{"metric": "m", "value": 1, "unit": "1"}' >> "$ORCH_RESULTS"; """


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("""echo '{"metric": "m", "value": NaN}' >> "$ORCH_RESULTS\"""", "`m` is nan"),
        (GOOD + """printf '{"metric": "n", "val' >> "$ORCH_RESULTS\"""", "Unterminated string"),
        (GOOD + """echo garbage >> "$ORCH_RESULTS\"""", "Expecting value"),
        (GOOD + """echo '{"metric": "\\ud800", "value": 1}' >> "$ORCH_RESULTS\"""", "half of a"),
        ('mkfifo "$ORCH_RESULTS"', "the host could not read all that it recorded"),
        (f"if [ $ORCH_ROUND = 0 ]; then {GOOD}fi", "recorded in 1 of 2 rounds; not in tell#2"),
    ],
    ids=["nan", "cut", "garbage", "half_a_character", "fifo", "one_round"],
)
def test_what_was_recorded_and_is_not_known_is_no_pass(
    command: str, said: str, project: Project
) -> None:
    project.write("unreadable.yaml", UNREADABLE.replace("{command}", command))
    project.write("unreadable.ledger.yaml", ONE)

    run = project.orch("run", "unreadable.yaml")

    assert run.code == 3, run.text
    assert "not fully measured" in run.out
    assert said in run.text
    assert project.orch("show", "latest").code == 3
    assert project.orch("review", "latest", "--tty").code == 3
    if "recorded in" not in said:
        project.orch("report", "latest", "--md")
        (page,) = project.last_run.rglob("*.md")
        assert "- unreadable result: tell" in page.read_text("utf-8")
