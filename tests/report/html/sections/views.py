"""A run as a section sees it, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.report.view import RunView
from orchestrator.store.history import History
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.results import Result
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.item import Item


def result(
    metric: str,
    value: Any,
    unit: str = "us",
    *,
    point: Mapping[str, Any] | None = None,
    step: str = "bench",
) -> Result:
    return Result(metric, value, unit, step, point or {}, 0, step)


def view(folder: Path, *, results: Sequence[Result] = (), items: Sequence[Item] = ()) -> RunView:
    return RunView(
        folder=RunDir(folder),
        record=RunRecord(
            run_id="20260101-000000-exp-aaaa",
            experiment="exp",
            experiment_file="exp.yaml",
            host="local",
            carrier="local",
            created_at="2026-01-01T00:00:00.000Z",
            orch_version="0.1.0",
            tree=Tree(local="a" * 40),
        ),
        history=History(),
        items=items,
        results=results,
        problems=(),
        conditions=Conditions(),
    )
