"""Runs that are home, looked at again: `show`, `report` and `trend`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.errors import EvidenceError
from orchestrator.reading import planned
from orchestrator.store.rundir import RunDir
from tests.conftest import Project

EXPERIMENT = """
experiment: measured
kind: probe
timeout: 20s
steps:
  - {id: times, run: python3 measure.py}
"""

MEASURE = """
from orch_results import record
record("latency", 2.0, "us")
record("backend", "triton")
record("rel_l2", None, status="error", note="NaN in the output")
"""

LEDGER = """
ledger: measured
entries:
  - {id: a, metric: latency, step: times, expect: {value: 2, rel: 0.1},
     because: "two microseconds, as in the program", source: closed_form}
"""


@pytest.fixture
def measured(project: Project) -> Project:
    project.write("measure.py", MEASURE)
    project.experiment(EXPERIMENT, "measured.yaml")
    project.orch("run", "measured.yaml", "--plain", "--no-preflight")
    return project


def remove_all_evidence(run: Path) -> None:
    shutil.rmtree(run / "evidence")
    (run / "bundle.zip").unlink()


def test_what_could_not_be_measured_is_told_everywhere(measured: Project) -> None:
    shown = measured.orch("show", "latest")
    measured.orch("report", "latest", "--md", "-o", "report.md")
    report = (measured.path / "report.md").read_text("utf-8")

    assert shown.code == measured.record()["exit_code"] == 3
    for text in (shown.out, report):
        assert "NaN in the output" in text
        assert "1 missing" in text
    assert "1 step passed" in report
    assert "None" not in report.partition("Conditions")[2]
    assert "not fully measured" in shown.out
    assert "Not fully measured" in report


@pytest.mark.parametrize("command", [("show",), ("show", "--json"), ("report",), ("logs",)])
def test_a_run_whose_evidence_is_gone_is_not_one_that_waits(
    measured: Project, command: tuple[str, ...]
) -> None:
    run = measured.last_run
    remove_all_evidence(run)

    done = measured.orch(*command, run.name)

    assert done.code == 3
    assert f"orch fetch {run.name}" in done.err
    assert "Errno" not in done.text
    assert "waiting" not in done.text


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_changed_result_is_not_shown(measured: Project, command: str) -> None:
    path = measured.last_run / "evidence/steps/times/results.jsonl"
    path.write_text(path.read_text("utf-8").replace("2.0", "1.0"), "utf-8")

    done = measured.orch(command, "latest")

    assert done.code == 3
    assert "results.jsonl was changed after it came home" in done.err


def damage(path: Path, content: bytes | None) -> None:
    """Put other bytes into a file, or a directory in its place."""
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.fixture
def predicted(project: Project) -> Project:
    project.write("measure.py", MEASURE.replace("None, status", "1.0, status"))
    project.write("measured.ledger.yaml", LEDGER)
    project.experiment(EXPERIMENT + "ledger: measured.ledger.yaml\n", "measured.yaml")
    project.commit()
    project.orch("run", "measured.yaml", "--plain", "--no-preflight")
    return project


@pytest.mark.parametrize("content", [b"[1,2]", b"{}", b"[" * 5000, b"\xff", None])
def test_a_damaged_plan_is_told_with_a_way_back(measured: Project, content: bytes | None) -> None:
    run = measured.last_run
    sound = (run / "plan.json").read_bytes()
    measured.orch("run", "measured.yaml", "--plain", "--no-preflight")
    damage(run / "plan.json", content)

    for command in (["show"], ["report"], ["report", "--md"], ["logs"], ["review", "--tty"]):
        done = measured.orch(*command, run.name)
        assert done.code == 3, command
        assert f"fix: copy {run}/evidence/plan.json to {run}/plan.json" in done.err
    trend = measured.orch("trend", "latency")

    assert trend.code == 0
    assert run.name not in trend.out
    assert f"left out: {'cannot read ' if content is None else ''}{run}/plan.json" in trend.err
    assert (run / "evidence/plan.json").read_bytes() == sound


@pytest.mark.parametrize("text", ["[1,2]", '{"schema": 1, "jobs": [1]}', "[" * 5000])
def test_what_is_no_plan_is_told_where_no_hash_of_it_is_known(measured: Project, text: str) -> None:
    folder = RunDir(measured.last_run)
    folder.write_record(folder.read_record().model_copy(update={"plan_sha256": ""}))
    folder.plan.write_text(text, "utf-8")

    with pytest.raises(EvidenceError, match=r"plan\.json is no plan: .*fix: copy "):
        planned(folder)


@pytest.mark.parametrize("content", [b"", None])
def test_a_damaged_ledger_is_told_with_a_way_back(
    predicted: Project, content: bytes | None
) -> None:
    run = predicted.last_run
    revision = predicted.git("rev-parse", "HEAD")
    damage(run / "ledger.yaml", content)

    for command in (["show"], ["report"], ["report", "--md"], ["review", "--tty"]):
        done = predicted.orch(*command, run.name)
        assert done.code == 3, command
        assert f"{run}/ledger.yaml" in done.err
        assert f"restore it from `git show {revision}:measured.ledger.yaml`" in done.err


def test_a_trend_keeps_the_round_whose_evidence_is_gone(measured: Project) -> None:
    first = measured.last_run
    measured.write("measure.py", MEASURE + "# another tree\n")
    measured.orch("run", "measured.yaml", "--plain", "--no-preflight", "--note", "with a comment")
    third_text = EXPERIMENT.replace("timeout: 20s", "timeout: 20s\nenv: {OMP_NUM_THREADS: 2}")
    measured.experiment(third_text, "measured.yaml")
    measured.orch("run", "measured.yaml", "--plain", "--no-preflight")
    second = measured.runs[1]

    before = measured.orch("trend", "latency").out
    remove_all_evidence(second)
    after = measured.orch("trend", "latency").out
    found = [
        json.loads(line)
        for line in measured.orch("trend", "latency", "--json").out.split("\n")[:-1]
    ]

    assert "latency  measured  times" in before
    assert "“with a comment”" in before
    assert "code (1 file: measure.py)" in before
    assert "env.OMP_NUM_THREADS absent → 2" in before
    assert f"evidence missing; orch fetch {second.name}" in after
    assert "waiting" not in after
    assert "code (2 files: measure.py, measured.yaml)" in after
    assert [r["value"] for r in found[0]["rounds"]] == [2.0, None, 2.0]
    assert found[0]["rounds"][0]["run_id"] == first.name


def test_a_trend_of_no_number_names_the_numbers(measured: Project) -> None:
    text = measured.orch("trend", "backend")
    gone = measured.orch("trend", "rel_l2")

    assert text.code == gone.code == 2
    assert "is not a number: the last round says `triton`; numbers are: latency" in text.err
    assert "the last says error: NaN in the output; numbers are: latency" in gone.err


def test_a_result_that_nobody_can_read_is_told_wherever_its_metric_is_looked_for(
    measured: Project,
) -> None:
    lost = """
import os
with open(os.environ["ORCH_RESULTS"], "a") as file:
    file.write('{"metric": "latency", "value": NaN}\\n')
"""
    measured.write("measure.py", lost)
    only = measured.orch("run", "measured.yaml", "--plain", "--no-preflight")
    measured.write("measure.py", lost + MEASURE.replace("latency", "other"))
    measured.orch("run", "measured.yaml", "--plain", "--no-preflight")
    unread = "unreadable result: times: results.jsonl:1: `latency` is nan"

    shown = " ".join(measured.orch("trend", "latency").out.split())
    found = json.loads(measured.orch("trend", "other", "--json").out)
    shutil.rmtree(measured.runs[0])
    gone = measured.orch("trend", "latency")

    assert only.code == 3
    assert shown.count(f"not measured: no result that can be read is `latency` {unread}") == 2
    assert [(one["value"], bool(one["unreadable"])) for one in found["rounds"]] == [
        (None, False),
        (None, True),
        (2.0, True),
    ]
    assert gone.code == 2
    assert "no run of 2 is known to have measured `latency`" in gone.err
    assert f"has an {unread}" in gone.err
