"""A metric over the rounds of a project, with what changed from one round to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.results import Result
from orchestrator.verdict import units
from orchestrator.verdict.conditions import Conditions, Field
from orchestrator.verdict.measured import NotMeasured, quantity

# The same on every round of a project, or different on every round by design.
_NOT_A_CHANGE = ("env.", "disk.")


@dataclass(frozen=True)
class Run:
    """A run that is home, as far as a trend needs it."""

    record: RunRecord
    history: History
    results: Sequence[Result]
    conditions: Conditions


@dataclass(frozen=True)
class Round:
    """One run's part of a trend. `value` is None when it was not measured; `why` says why."""

    run_id: str
    host: str
    note: str
    value: float | None
    samples: Sequence[float] = ()
    count: int = 0
    why: str = ""
    ratio: float | None = None
    changes: Sequence[str] = ()


@dataclass(frozen=True)
class Trend:
    """One metric at one point of one step, oldest round first."""

    metric: str
    step: str
    point: Mapping[str, Any]
    unit: str
    rounds: Sequence[Round]


def trends(runs: Sequence[Run], metric: str, where: Mapping[str, Any]) -> list[Trend]:
    """The metric at every point that `where` leaves, over runs given oldest first.

    A run counts when its experiment measured the metric in any of the runs: a round that failed
    before it measured is part of the story.
    """
    matching = {run.record.run_id: _matching(run, metric, where) for run in runs}
    experiments = {run.record.experiment for run in runs if matching[run.record.run_id]}
    told = [run for run in runs if run.record.experiment in experiments]
    places: dict[tuple[str, str], Result] = {}
    for run in told:
        for result in matching[run.record.run_id]:
            places[result.step, str(sorted(result.point.items(), key=str))] = result
    return [_trend(told, last) for last in places.values()]


def _matching(run: Run, metric: str, where: Mapping[str, Any]) -> list[Result]:
    return [
        r
        for r in run.results
        if r.metric == metric
        and isinstance(r.value, (int, float))
        and not isinstance(r.value, bool)
        and all(str(r.point.get(axis)) == str(value) for axis, value in where.items())
    ]


def _trend(runs: Sequence[Run], last: Result) -> Trend:
    rounds: list[Round] = []
    before: Run | None = None
    measured_before: float | None = None
    for run in runs:
        found = _round(run, last, before, measured_before)
        rounds.append(found)
        before = run
        measured_before = found.value if found.value is not None else measured_before
    return Trend(last.metric, last.step, last.point, last.unit, rounds)


def _round(run: Run, last: Result, before: Run | None, measured_before: float | None) -> Round:
    record = run.record
    changes = _changes(before, run) if before else ()
    try:
        found = quantity(last.metric, last.step, last.point, run.results, run.history)
        value = units.convert(float(found.value), found.unit, last.unit)
    except (NotMeasured, units.UnitMismatch) as error:
        return Round(record.run_id, record.host, record.note, None, why=str(error), changes=changes)
    return Round(
        run_id=record.run_id,
        host=record.host,
        note=record.note,
        value=value,
        samples=[
            units.convert(sample, r.unit, last.unit)
            for r in run.results
            if r.metric == last.metric and r.step == last.step and r.point == last.point
            for sample in (r.samples or ([float(r.value)] if r.value is not None else []))
        ],
        count=found.count,
        ratio=value / measured_before if measured_before else None,
        changes=changes,
    )


def _changes(before: Run, after: Run) -> tuple[str, ...]:
    """`code`, `host`, and the identity of the host fact by fact."""
    found = []
    if before.record.tree.local != after.record.tree.local:
        found.append("code")
    if before.record.host != after.record.host:
        found.append(f"host {before.record.host} → {after.record.host}")
    if before.conditions.caches != after.conditions.caches:
        found.append(f"caches {before.conditions.caches} → {after.conditions.caches}")
    old, new = before.conditions.before, after.conditions.before
    for name in sorted(old.keys() & new.keys()):
        if new[name].severity == "identity" and not name.startswith(_NOT_A_CHANGE):
            found += _change(name, old[name], new[name])
    return tuple(found)


def _change(name: str, old: Field, new: Field) -> list[str]:
    if (old.state, old.value) == (new.state, new.value):
        return []
    return [f"{name} {_told(old)} → {_told(new)}"]


def _told(field: Field) -> str:
    if field.state != "value":
        return field.state.replace("_", " ")
    text = str(field.value)
    return text if len(text) <= 24 else text[:21] + "..."
