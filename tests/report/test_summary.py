"""The report at the end of a run, as a terminal shows it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.report import summary
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.results import Result
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.reconcile import Item, reconcile
from tests.verdict.runs import entry, history, job, ledger, result

RECORD = RunRecord(
    run_id="20260131-235959-exp-0001",
    experiment="exp",
    experiment_file="exp.yaml",
    host="here",
    carrier="local",
    created_at="2026-01-31T23:59:59.000Z",
    orch_version="0",
    state="home",
    tree=Tree(local="0" * 40, object_format="sha1"),
    code={},
    caches="isolated",
)


def shown(items: Sequence[Item], width: int = 100, *, colour: bool = False) -> str:
    """What `orch show` writes about a run whose one step passed."""
    facts = summary.Summary(RECORD, Path("run"), history(job("run")), items, Conditions())
    console = Console(file=io.StringIO(), width=width, force_terminal=colour)
    summary.show(facts, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def recorded(*results: Result) -> list[Item]:
    return reconcile(None, results, history(job("run")), Conditions())


def test_what_could_not_be_measured_is_shown_with_its_note() -> None:
    items = recorded(
        result("run", "rel_l2", None, "1", status="error", note="NaN in the output"),
        result("run", "time", 1.0),
    )

    text = shown(items)

    assert "recorded as error: NaN in the output" in text
    assert "rel_l2  run" in text
    assert "not fully measured" in text
    assert "1 missing, 1 new" in text


def test_without_a_prediction_nothing_is_as_predicted() -> None:
    text = shown(recorded(result("run", "time", 1.0)), colour=True)

    assert "all steps passed; nothing was predicted" in text
    assert "ledger:" not in text
    assert "\x1b[1;32m" not in text


def test_a_run_as_predicted_is_green() -> None:
    items = reconcile(
        ledger(entry({"value": 1, "rel": "5%"})),
        [result("run", "time", 1.0)],
        history(job("run")),
        Conditions(),
    )

    text = shown(items, colour=True)

    assert "all as predicted" in text
    assert "\x1b[1;32m" in text
