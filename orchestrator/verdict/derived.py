"""What is computed of measured quantities, over all rounds and in each: expressions, ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.spec import formula
from orchestrator.store.history import Point
from orchestrator.verdict import units
from orchestrator.verdict.measured import Measured, NotMeasured, converted, quantity, shown_at
from orchestrator.verdict.recorded import Place, Recorded, equal, point_of

_MOST_ROUNDS = 12


def computed(
    expression: str,
    unit: str,
    step: str | None,
    where: Point,
    recorded: Recorded,
    *,
    by_round: bool = False,
) -> Measured:
    """The value of an expression over metrics of one point; `by_round` asks for each round's too.

    Raises:
        NotMeasured: a metric is missing or is no number, they were measured at several points, or
            the expression has no value.
    """
    parts = _parts(expression, step, where, recorded)
    places = tuple(place for part in parts.values() for place in part.places)
    apart = _why_apart(places)
    if apart:
        raise NotMeasured(apart, places)
    try:
        value = _evaluated(expression, unit, parts, [part.value for part in parts.values()])
    except NotMeasured as error:
        raise NotMeasured(str(error), places) from error
    count = min(part.count for part in parts.values())
    whole = Measured(value, unit, count, places[0][1], places=places)
    if not by_round:
        return whole
    named = {f"`{name}`": part for name, part in parts.items()}
    return _by_round(whole, named, lambda said: _evaluated(expression, unit, parts, said))


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


def _evaluated(
    expression: str, unit: str, parts: Mapping[str, Measured], said: Sequence[Any]
) -> float:
    """The expression with these values of its parts, in one unit.

    Raises:
        NotMeasured: one of them is no number or not in that unit, or the expression has no value.
    """
    base = next(iter(parts.values())).unit
    wanted = base if units.is_dimensionless(unit) else unit
    values = {}
    for (name, part), value in zip(parts.items(), said, strict=True):
        if not part.is_number:
            raise NotMeasured(f"`{name}` is `{part.value}`, not a number")
        try:
            values[name] = converted(replace(part, value=value), wanted)
        except (NotMeasured, units.UnitMismatch) as error:
            raise NotMeasured(f"`{name}`: {error}") from error
    try:
        return formula.evaluate(expression, values)
    except formula.FormulaError as error:
        raise NotMeasured(str(error)) from error


def ratio(measured: Measured, below: Measured, *, by_round: bool = False) -> Measured:
    """A measured number by its reference; `by_round` asks for each round's ratio too.

    Raises:
        NotMeasured: the reference is no number or zero, or the ratio is beyond every float.
        UnitMismatch: the two measure different things.
    """
    if not below.is_number:
        raise NotMeasured(f"the reference of the ratio is `{below.value}`, not a number")

    whole = Measured(_quotient(measured, below), "1", measured.count, measured.step)
    if not by_round:
        return whole

    def of(said: Sequence[Any]) -> float:
        mine, other = said
        return _quotient(replace(measured, value=mine), replace(below, value=other))

    return _by_round(whole, {"the value": measured, "its reference": below}, of)


def _quotient(measured: Measured, below: Measured) -> float:
    divisor = converted(below, measured.unit)
    if divisor == 0:
        raise NotMeasured("the reference of the ratio is zero")
    quotient = float(measured.value) / divisor
    if not math.isfinite(quotient):
        raise NotMeasured(f"the ratio of {measured.value} to {divisor} is beyond every float")
    if not quotient and measured.value:
        raise NotMeasured(f"the ratio of {measured.value} to {divisor} is below every float")
    return quotient


def _by_round(
    whole: Measured, parts: Mapping[str, Measured], value_of: Callable[[Sequence[Any]], float]
) -> Measured:
    """The whole with its value in each round, or with the reason why there are none."""
    unmatched = _why_unmatched(parts)
    if unmatched:
        return replace(whole, unmatched=unmatched)
    rounds = next(iter(parts.values())).rounds
    values = []
    for index, number in enumerate(rounds):
        try:
            values.append(value_of([part.values[index] for part in parts.values()]))
        except NotMeasured as error:
            return replace(whole, unmatched=f"no value in round #{number + 1}: {error}")
    return replace(whole, values=tuple(values), rounds=rounds)


def _why_unmatched(parts: Mapping[str, Measured]) -> str:
    """Why what the parts said cannot be put together round by round."""
    first, own = next(iter(parts.items()))
    for name, part in parts.items():
        if part.unmatched:
            return part.unmatched
        if part.rounds != own.rounds:
            counts = f"{first} was measured in {_ids(own)}, {name} in {_ids(part)}"
            return f"`exact` holds in each round, and the rounds do not match up: {counts}"
    return ""


def _ids(part: Measured) -> str:
    """Its rounds, as the ids of jobs count them."""
    shown = [f"#{number + 1}" for number in part.rounds[:_MOST_ROUNDS]]
    return ", ".join(shown) + (", ..." if len(part.rounds) > _MOST_ROUNDS else "")


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
    return f"`{place[0]}` of {shown_at(place[1], point_of(place))}"
