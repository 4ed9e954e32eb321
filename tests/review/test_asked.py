"""What a review asks about besides predictions and artifacts: steps, endings, exact metrics."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from orchestrator import reading
from orchestrator.diff.comparison import Comparison, between_runs
from orchestrator.review import tty
from orchestrator.review.desk import Desk
from orchestrator.review.page import page
from orchestrator.store.rundir import RunDir
from tests.conftest import Molds, Project

EXPERIMENT = """
experiment: turns
timeout: 60s
steps:
  - {id: steady, run: python3 steady.py}
  - {id: shaky, run: python3 shaky.py}
"""
STEADY = """
from orch_results import record
record("rows", {rows}, "1")
record("{name}", True, "1")
record("time", {rows}.5, "us")
"""
SHAKY = """
print("about to end")
raise SystemExit({code})
"""
REASON = "this was to be expected today"


def run_with(project: Project, rows: int, name: str, code: int) -> None:
    project.write("steady.py", STEADY.format(rows=rows, name=name))
    project.write("shaky.py", SHAKY.format(code=code))
    project.experiment(EXPERIMENT, "turns.yaml")
    done = project.orch("run", "turns.yaml", "--plain", "--no-preflight")
    assert done.code == (1 if code else 0), done.text


@pytest.fixture
def good(project: Project, molds: Molds, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.chdir(project.path)
    molds.pour("asked good", project, lambda made: run_with(made, 64, "old_flag", 0))
    return RunDir(project.last_run)


@pytest.fixture
def broken(project: Project, good: RunDir, molds: Molds) -> RunDir:
    """Run after `good`: a step fails, a count differs, one flag is gone and one is new."""
    molds.pour("asked broken", project, lambda made: run_with(made, 67, "new_flag", 3))
    assert good.path == project.runs[0]
    return RunDir(project.last_run)


def asked(desk: Desk, other: str = "OTHER") -> dict[str, str]:
    return {s.id.replace(other, "OTHER"): s.seen.replace(other, "OTHER") for s in desk.open}


def against(run: RunDir, other: RunDir) -> Desk:
    found: Comparison = between_runs(other, run)
    return Desk(reading.view(run), reading.view(other), comparison=found)


def test_a_step_that_did_not_pass_is_asked_about_without_another_run(broken: RunDir) -> None:
    desk = Desk(reading.view(broken))

    (subject,) = desk.open
    assert (subject.id, subject.kind, subject.status) == ("step:shaky", "step", "failed")
    assert subject.seen.startswith("failed: ")
    assert "about to end" in subject.notes


def test_a_run_whose_steps_all_passed_leaves_nothing_open(good: RunDir) -> None:
    assert asked(Desk(reading.view(good))) == {}


def test_all_that_differs_from_another_run_is_asked_about_once(
    good: RunDir, broken: RunDir
) -> None:
    found = asked(against(broken, good), good.run_id)

    assert set(found) == {
        "ended:OTHER:job:shaky",
        "metric:OTHER:rows@steady[]",
        "metric:OTHER:old_flag@steady[]",
        "metric:OTHER:new_flag@steady[]",
    }
    assert found["ended:OTHER:job:shaky"].startswith("passed in OTHER; now failed: ")
    assert found["metric:OTHER:rows@steady[]"] == "different; 64 -> 67"
    assert found["metric:OTHER:old_flag@steady[]"] == "only a; true -> -"


def test_a_step_that_passes_again_is_asked_about_too(good: RunDir, broken: RunDir) -> None:
    found = asked(against(good, broken), broken.run_id)

    assert found["ended:OTHER:job:shaky"] == "failed in OTHER; now passed"


def test_a_decision_holds_for_what_was_seen_and_drafts_nothing(
    good: RunDir, broken: RunDir
) -> None:
    desk = against(broken, good)
    for subject in desk.open:
        desk.decide(subject.id, "accepted", REASON)

    done = desk.finish()

    assert (done.accepted, done.open, done.ledger) == (4, 0, None)
    assert against(broken, good).open == []
    path: Path = broken.path / "review.yaml"
    yaml = YAML()
    written = yaml.load(path.read_text("utf-8"))
    rows = next(d for d in written["decisions"] if ":rows@" in d["subject"])
    rows["seen"] = "different; 64 -> 65"
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(written, file)
    assert [s.title for s in against(broken, good).open] == ["rows"]
    assert [s.id for s in Desk(reading.view(broken)).open] == ["step:shaky"]


def test_the_terminal_asks_and_the_command_tells(
    project: Project, good: RunDir, broken: RunDir
) -> None:
    alone = project.orch("review", broken.run_id, "--tty")
    beside = project.orch("review", broken.run_id, "--against", good.run_id, "--tty")

    assert alone.code == 3
    assert "1 of 1" in alone.out
    assert "shaky" in alone.out
    assert beside.code == 3
    assert f"passed in {good.run_id}; now failed" in " ".join(beside.out.split())


def test_rejecting_in_the_terminal_is_kept(good: RunDir, broken: RunDir) -> None:
    desk = against(broken, good)
    answers = iter(["r", "it broke", "a", REASON, "r", "", "r", ""])
    console = Console(file=io.StringIO(), width=120)

    done = tty.review(desk, console, lambda _question: next(answers))

    assert done is not None
    assert (done.accepted, done.rejected, done.open) == (1, 3, 0)


def test_the_page_filters_by_each_kind(good: RunDir, broken: RunDir) -> None:
    beside, alone = page(against(broken, good)), page(Desk(reading.view(broken)))

    for kind, text in (("ended", beside), ("metric", beside), ("step", alone)):
        assert f'data-filter="{kind}"' in text
        assert f'data-kind="{kind}"' in text
