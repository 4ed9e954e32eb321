"""From recorded results to the one quantity an entry speaks of."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.spec.words import show_in_id
from orchestrator.store.history import Point
from orchestrator.store.results import Result
from orchestrator.verdict import units
from orchestrator.verdict.recorded import Place, Recorded, equal, holds, place_of, point_of


@dataclass(frozen=True)
class Measured:
    """What was measured: the median over rounds for numbers, the common value else.

    `values` is what each of `rounds` said; where what was computed has none, `unmatched` says why.
    `places` is where it came from.
    """

    value: Any
    unit: str
    count: int
    step: str = ""
    values: tuple[Any, ...] = ()
    places: tuple[Place, ...] = ()
    rounds: tuple[int, ...] = ()
    unmatched: str = ""

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)


class NotMeasured(Exception):
    """There is no such quantity in the results; the text says why.

    `places` is what was recorded for it nevertheless, and does not amount to a value.
    """

    def __init__(self, reason: str, places: Sequence[Place] = ()) -> None:
        super().__init__(reason)
        self.places = tuple(places)


def quantity(metric: str, step: str | None, where: Point, recorded: Recorded) -> Measured:
    """The measured value of a metric at the one point that `where` names.

    Raises:
        NotMeasured: nothing was recorded there, or not in every round, it has no value, or `where`
            names several points of what was recorded or planned.
    """
    matching = [
        r
        for r in recorded.near(metric, where)
        if (step is None or r.step == step) and holds(r.point, where)
    ]
    if not matching:
        raise NotMeasured(_why_nothing(metric, step, where, recorded))
    places = {place_of(r) for r in matching}
    if len(places) > 1:
        shown = ", ".join(shown_at(p[1], point_of(p)) for p in sorted(places, key=str)[:3])
        raise NotMeasured(f"`where` names {len(places)} points ({shown}, ...), not one")
    planned = recorded.planned_at(matching[0], where)
    if len(planned) > 1:
        # Nobody knows whether the others meant to be silent or lost what they measured.
        raise NotMeasured(_why_several(matching[0], where, planned))
    rounds, telling = recorded.rounds_of(matching[0]), {r.job for r in matching}
    silent = [job for job in rounds if job not in telling]
    if silent:
        told = len(rounds) - len(silent)
        raise NotMeasured(
            f"recorded in {told} of {len(rounds)} rounds; not in {silent[0]}", tuple(places)
        )
    return summary(matching)


def converted(measured: Measured, wanted: str) -> float:
    """A measured number in another unit.

    Raises:
        NotMeasured: it is beyond every float there.
        UnitMismatch: the units measure different things.
    """
    value = units.convert(float(measured.value), measured.unit, wanted)
    if not math.isfinite(value):
        raise NotMeasured(
            f"{measured.value} {measured.unit or '1'} in {wanted or '1'} is beyond every float"
        )
    return value


def summary(matching: Sequence[Result]) -> Measured:
    """What all rounds at one place say together.

    Raises:
        NotMeasured: they do not agree on one value, on a unit, or a round has none.
    """
    place = place_of(matching[0])
    without = [r for r in matching if r.status != "ok"]
    if without:
        raise NotMeasured(
            f"recorded as {without[0].status}: {_one_line(without[0].note) or 'no reason'}", [place]
        )
    in_order = sorted(matching, key=lambda r: r.round)
    values, rounds = tuple(r.value for r in in_order), tuple(r.round for r in in_order)
    found = sorted({r.unit for r in matching})
    if len(found) > 1:
        raise NotMeasured(f"recorded in several units: {found}", [place])
    (job, _), count = Counter((r.job, r.round) for r in matching).most_common(1)[0]
    if count > 1:
        raise NotMeasured(
            f"recorded {count} times in one round of {job}; give each its own `point`", [place]
        )
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    if not numbers and any(not equal(v, values[0]) for v in values):
        raise NotMeasured(disagreement(values), [place])
    value = statistics.median(values) if numbers and len(values) > 1 else values[0]
    if numbers and not math.isfinite(value):
        shown = ", ".join(map(str, values[:4]))
        raise NotMeasured(f"the median of the rounds is beyond every float: {shown}", [place])
    return Measured(value, found[0], len(values), place[1], values, (place,), rounds)


def _one_line(note: str) -> str:
    """A step's own words, without what acts on whoever shows them."""
    words = " ".join(note.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)


def disagreement(values: Sequence[Any]) -> str:
    """That the rounds say different things where they must say the same."""
    shown = list(dict.fromkeys(str(value) for value in values))
    return f"the rounds disagree: {', '.join(shown[:4])}"


def _why_nothing(metric: str, step: str | None, where: Point, recorded: Recorded) -> str:
    """What became of the jobs that could have recorded it."""
    candidates = [
        job
        for job in recorded.history.jobs.values()
        if (step is None or job.step == step)
        and all(axis not in job.point or job.point[axis] == v for axis, v in where.items())
        and (not where or any(axis in job.point for axis in where))
    ]
    bad = [job for job in candidates if job.state != "passed"]
    if bad:
        job = bad[0]
        return f"{job.id} {job.state.replace('_', ' ')}{': ' + job.reason if job.reason else ''}"
    nothing = "no result that can be read is" if recorded.unreadable else "no step recorded"
    return f"{nothing} `{metric}`" + (f" at {shown_at('', where)}" if where else "")


def _why_several(result: Result, where: Point, planned: Sequence[Point]) -> str:
    """That one of several planned points recorded it and the others did not, and how to name it."""
    step, own = result.step, planned[0]
    more = f" and {len(planned) - 2} more" if len(planned) > 2 else ""
    named = ", ".join(f"{a}: {show_in_id(v)}" for a, v in own.items() if a not in where)
    return (
        f"`where` leaves {len(planned)} planned points: {shown_at(step, own)} recorded "
        f"`{result.metric}` there, {shown_at(step, planned[1])}{more} did not; "
        f"name the point in `where`: {{{named}}}"
    )


def shown_at(step: str, point: Point) -> str:
    """A point of a step, as people write it."""
    return f"{step}[{', '.join(f'{axis}={value}' for axis, value in point.items())}]"
