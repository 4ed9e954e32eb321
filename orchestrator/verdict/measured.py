"""From recorded results to the one quantity an entry speaks of."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.spec import formula
from orchestrator.spec.words import show_in_id
from orchestrator.store.history import Point
from orchestrator.store.results import Result
from orchestrator.verdict import units
from orchestrator.verdict.recorded import Place, Recorded, equal, holds, place_of, point_of


@dataclass(frozen=True)
class Measured:
    """What was measured: the median over rounds for numbers, the common value else.

    `values` is what each round said, where `value` is not computed; `places` is where it came from.
    """

    value: Any
    unit: str
    count: int
    step: str = ""
    values: tuple[Any, ...] = ()
    places: tuple[Place, ...] = ()

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
        shown = ", ".join(_shown(p[1], point_of(p)) for p in sorted(places, key=str)[:3])
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


def computed(
    expression: str,
    unit: str,
    step: str | None,
    where: Point,
    recorded: Recorded,
) -> Measured:
    """The value of an expression over metrics of one point.

    Raises:
        NotMeasured: a metric is missing or is no number, they were measured at several points, or
            the expression has no value.
    """
    parts = _parts(expression, step, where, recorded)
    places = tuple(place for part in parts.values() for place in part.places)
    apart = _why_apart(places)
    if apart:
        raise NotMeasured(apart, places)
    values = {}
    base = next(iter(parts.values())).unit
    for name, part in parts.items():
        if not part.is_number:
            raise NotMeasured(f"`{name}` is `{part.value}`, not a number", places)
        wanted = base if units.is_dimensionless(unit) else unit
        try:
            values[name] = converted(part, wanted)
        except NotMeasured as error:
            raise NotMeasured(f"`{name}`: {error}", places) from error
        except units.UnitMismatch as error:
            raise NotMeasured(f"`{name}`: {error}", places) from error
    try:
        value = formula.evaluate(expression, values)
    except formula.FormulaError as error:
        raise NotMeasured(str(error), places) from error
    count = min(part.count for part in parts.values())
    return Measured(value, unit, count, places[0][1], places=places)


def _parts(
    expression: str, step: str | None, where: Point, recorded: Recorded
) -> dict[str, Measured]:
    """Every metric that an expression names.

    Raises:
        NotMeasured: it names none, or one has no value; then it knows the places of the others too.
    """
    parts: dict[str, Measured] = {}
    failed: list[NotMeasured] = []
    for name in formula.metrics(expression):
        try:
            parts[name] = quantity(name, step, where, recorded)
        except NotMeasured as error:
            failed.append(error)
    if failed:
        heard = [part.places for part in parts.values()] + [error.places for error in failed]
        raise NotMeasured(str(failed[0]), [place for places in heard for place in places])
    if not parts:
        raise NotMeasured(f"`{expression}` names no metric")
    return parts


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


def _why_apart(places: Sequence[Place]) -> str:
    """Why places are not one point: two of them differ in an axis that both have."""
    known: dict[str, tuple[Any, Place]] = {}
    for place in places:
        for axis, value in point_of(place).items():
            other, first = known.setdefault(axis, (value, place))
            if not equal(other, value):
                return (
                    f"{_told(first)} and {_told(place)} were not measured at one point; name the "
                    f"`{axis}` of both in `where`"
                )
    return ""


def _told(place: Place) -> str:
    return f"`{place[0]}` of {_shown(place[1], point_of(place))}"


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
    values = tuple(r.value for r in matching)
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
    return Measured(value, found[0], len(values), place[1], values, (place,))


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
    return f"{nothing} `{metric}`" + (f" at {_shown('', where)}" if where else "")


def _why_several(result: Result, where: Point, planned: Sequence[Point]) -> str:
    """That one of several planned points recorded it and the others did not, and how to name it."""
    step, own = result.step, planned[0]
    more = f" and {len(planned) - 2} more" if len(planned) > 2 else ""
    named = ", ".join(f"{a}: {show_in_id(v)}" for a, v in own.items() if a not in where)
    return (
        f"`where` leaves {len(planned)} planned points: {_shown(step, own)} recorded "
        f"`{result.metric}` there, {_shown(step, planned[1])}{more} did not; "
        f"name the point in `where`: {{{named}}}"
    )


def _shown(step: str, point: Point) -> str:
    return f"{step}[{', '.join(f'{axis}={value}' for axis, value in point.items())}]"
