"""A metric over the rounds of a project, with what changed from one round to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.results import Result
from orchestrator.verdict import changes, units
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.measured import NotMeasured, converted, quantity
from orchestrator.verdict.recorded import Place, Recorded, place_of

# The files in which two trees differ; none where nobody can tell.
Files = Callable[[str, str], Sequence[str]]


@dataclass(frozen=True)
class Run:
    """A run that is home, as far as a trend needs it; `problem` says why nothing is known.

    `unreadable` is what it recorded and nobody can read.
    """

    record: RunRecord
    history: History
    results: Sequence[Result]
    conditions: Conditions
    problem: str = ""
    unreadable: Sequence[str] = ()

    @cached_property
    def recorded(self) -> Recorded:
        return Recorded(self.results, self.history, self.unreadable)


@dataclass(frozen=True)
class Round:
    """One run's part of a trend. `value` is None when it was not measured; `why` says why.

    `changes` is what changed since the round before, `files` the files that the code changed in;
    `unreadable` is what the run recorded and nobody can read, with or without a value here.
    """

    run_id: str
    host: str
    note: str
    value: float | None
    samples: Sequence[float] = ()
    count: int = 0
    why: str = ""
    ratio: float | None = None
    changes: Sequence[str] = ()
    files: Sequence[str] = ()
    unreadable: Sequence[str] = ()


@dataclass(frozen=True)
class Trend:
    """One metric at one point of one step of one experiment, oldest round first."""

    metric: str
    step: str
    point: Mapping[str, Any]
    unit: str
    rounds: Sequence[Round]
    experiment: str = ""


def trends(
    runs: Sequence[Run],
    metric: str,
    where: Mapping[str, Any],
    files: Files = lambda _old, _new: (),
) -> list[Trend]:
    """The metric at every point that `where` leaves, over runs given oldest first.

    Each experiment has its own rounds: the same name and point in another one is another quantity.
    All its runs count: a round that failed before it measured is part of the story.
    """
    found: list[Trend] = []
    for experiment in dict.fromkeys(run.record.experiment for run in runs):
        rounds = [run for run in runs if run.record.experiment == experiment]
        lasts = _lasts([r for run in rounds for r in _matching(run, metric, where)])
        if lasts:
            changed = _changes(rounds, files)
            found += [_trend(rounds, last, changed) for last in lasts]
    return found


def _matching(run: Run, metric: str, where: Mapping[str, Any]) -> list[Result]:
    """What a run recorded of it: numbers, and that there was no value."""
    return [
        r
        for r in run.results
        if r.metric == metric and (r.value is None or is_number(r.value)) and has(r.point, where)
    ]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has(point: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a point has the values of `where`, which may be text from a command line."""
    return all(str(point.get(axis)) == str(value) for axis, value in where.items())


def _lasts(matching: Sequence[Result]) -> list[Result]:
    """For every place the last number, or the last word that there is none."""
    places: dict[Place, Result] = {}
    for result in matching:
        place = place_of(result)
        if result.value is not None or place not in places or places[place].value is None:
            places[place] = result
    return list(places.values())


@dataclass(frozen=True)
class _Changed:
    words: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def _changes(runs: Sequence[Run], files: Files) -> list[_Changed]:
    """What changed before every run, since the last one of which anything is known."""
    found: list[_Changed] = []
    before: Run | None = None
    for run in runs:
        if before is None or run.problem:
            found.append(_Changed())
        else:
            words = changes.between(before.record, before.conditions, run.record, run.conditions)
            trees = before.record.tree.local, run.record.tree.local
            found.append(_Changed(words, tuple(files(*trees)) if "code" in words else ()))
        before = before if run.problem else run
    return found


def _trend(runs: Sequence[Run], last: Result, changed: Sequence[_Changed]) -> Trend:
    rounds: list[Round] = []
    measured_before: float | None = None
    unit_before = ""
    for run, change in zip(runs, changed, strict=True):
        there = _there(run, last)
        found = _round(run, last, there, measured_before)
        found = replace(found, changes=change.words, files=change.files)
        unit = there[0].unit if there else None
        if unit is not None and unit_before and (unit or "1") != unit_before:
            told = f"unit {unit_before} → {unit or '1'}"
            found = replace(found, changes=(told, *found.changes))
        rounds.append(found)
        unit_before = unit_before if unit is None else unit or "1"
        measured_before = found.value if found.value is not None else measured_before
    return Trend(last.metric, last.step, last.point, last.unit, rounds, runs[0].record.experiment)


def _round(run: Run, last: Result, there: Sequence[Result], measured_before: float | None) -> Round:
    record = run.record
    blank = Round(record.run_id, record.host, record.note, None, unreadable=run.unreadable)
    if run.problem:
        return replace(blank, why=run.problem)
    try:
        found = quantity(last.metric, last.step, last.point, run.recorded)
        if not found.is_number:
            return replace(blank, why=f"`{found.value}` is not a number")
        value = converted(found, last.unit)
    except NotMeasured as error:
        return replace(blank, why=str(error))
    except units.UnitMismatch:
        why = f"measured in `{found.unit or '1'}`, which is not `{last.unit or '1'}`"
        return replace(blank, why=why)
    return replace(
        blank,
        value=value,
        samples=_samples(there, last.unit),
        count=found.count,
        ratio=_ratio(value, measured_before),
    )


def _samples(there: Sequence[Result], unit: str) -> list[float]:
    """The measurements behind a value; one that is beyond every float in the unit is left out."""
    told = (units.convert(s, r.unit, unit) for r in there for s in r.samples or [float(r.value)])
    return [sample for sample in told if math.isfinite(sample)]


def _ratio(value: float, before: float | None) -> float | None:
    ratio = value / before if before else math.inf
    return ratio if math.isfinite(ratio) else None


def _there(run: Run, last: Result) -> list[Result]:
    """What a run recorded with a value in the same place."""
    place = place_of(last)
    near = [r for r in run.recorded.near(last.metric, last.point) if r.point == last.point]
    return [r for r in near if place_of(r) == place and r.value is not None]
