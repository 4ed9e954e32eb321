"""The ledger against the results, item by item: hit, miss, missing, not comparable, new."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.spec import formula
from orchestrator.spec.ledger import Entry, Expect, Ledger, by_id
from orchestrator.store.history import History
from orchestrator.store.results import Result
from orchestrator.verdict import units
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.measured import (
    Measured,
    NotMeasured,
    Place,
    computed,
    disagreement,
    equal,
    holds,
    place_of,
    quantity,
    summary,
)

HIT, MISS, MISSING = "hit", "miss", "missing"
NOT_COMPARABLE, NEW = "not_comparable", "new"
# What decimal fractions and conversions of units lose in binary.
_ROUNDING = 1e-9
# Below it every whole number has its own float.
_EXACT = 2.0**53
_BEYOND = math.nextafter(1.0, 2.0)
# A step says so where it did not try to measure.
_ON_PURPOSE = frozenset({"skipped", "not_applicable"})
# Worst first: the order in which people read them.
ORDER = (MISS, MISSING, NOT_COMPARABLE, HIT, NEW)


@dataclass(frozen=True)
class Item:
    """One line of the verdict.

    `distance` is signed and in tolerance widths: within ±1 is a hit, 0 is the centre. It is None
    where there is nothing to measure a distance with. `bounds` are the ends of what counts as a
    hit, in `unit`, None where a side is open; they bound the ratio where one was expected.
    """

    id: str
    status: str
    metric: str
    where: Mapping[str, Any]
    measured: Any = None
    unit: str = ""
    expected: str = ""
    bounds: tuple[float | None, float | None] | None = None
    is_ratio: bool = False
    distance: float | None = None
    reason: str = ""
    severity: str = "info"
    because: str = ""
    decides: str = ""
    count: int = 0
    step: str = ""

    @property
    def is_predicted(self) -> bool:
        """Whether an entry speaks of it: every entry expects something."""
        return bool(self.expected)

    def as_json(self) -> dict[str, Any]:
        told = {key: value for key, value in asdict(self).items() if value not in ("", None)}
        if not self.is_ratio:
            told.pop("is_ratio")
        return told


def reconcile(
    ledger: Ledger | None, results: Sequence[Result], history: History, conditions: Conditions
) -> list[Item]:
    """Every entry with its status, then everything that was recorded and not predicted.

    What was recorded without a value is missing, predicted or not. Without an entry that says how
    grave that is, `error` and `unknown` are blockers; `skipped` and `not_applicable` are not.
    """
    entries = ledger.entries if ledger else ()
    known = by_id(ledger) if ledger else {}
    judge = _Judge(known, results, history, conditions)
    items = [judge.item(entry) for entry in entries]
    items += _unpredicted(results, judge)
    return sorted(items, key=_worst_first)


class _Judge:
    """Holds what every entry is judged by."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        results: Sequence[Result],
        history: History,
        conditions: Conditions,
    ) -> None:
        self._entries = entries
        self._results = results
        self._history = history
        self._conditions = conditions
        self._spoken_for: set[Place] = set()
        self._asked_for = [question for entry in entries.values() for question in _asked(entry)]

    def item(self, entry: Entry) -> Item:
        unmet = self._conditions.unmet(entry.requires)
        try:
            measured = self._measure(entry)
        except NotMeasured as error:
            return _item(entry, NOT_COMPARABLE if unmet else MISSING, reason=unmet or str(error))
        if unmet:
            return _item(entry, NOT_COMPARABLE, measured, reason=unmet)
        try:
            return self._judge(entry, measured)
        except NotMeasured as error:
            return _item(entry, MISSING, measured, reason=str(error))
        except units.UnitMismatch as error:
            return _item(entry, NOT_COMPARABLE, measured, reason=str(error))

    def _measure(self, entry: Entry) -> Measured:
        where = (entry.step, entry.where, self._results, self._history)
        if entry.compute:
            return self._heard(computed(entry.compute, entry.unit, *where))
        assert entry.metric is not None, "an entry has a metric or an expression"
        return self._heard(quantity(entry.metric, *where))

    def _heard(self, measured: Measured) -> Measured:
        self._spoken_for.update(measured.places)
        return measured

    def speaks_of(self, matching: Sequence[Result]) -> bool:
        """Whether an entry was judged by what one place recorded, or found no value there."""
        one = matching[0]
        if all(result.status == "ok" for result in matching):
            return place_of(one) in self._spoken_for
        return any(
            one.metric == metric and step in (None, one.step) and holds(one.point, where)
            for metric, step, where in self._asked_for
        )

    def _judge(self, entry: Entry, measured: Measured) -> Item:
        expect = entry.expect
        if expect.ratio_to is not None and measured.is_number:
            measured = self._ratio(entry, measured)
        if expect.kind == "hash":
            return _exactly(entry, measured, expect.hash)
        if expect.kind == "exact":
            return _exactly(entry, _in_unit(entry, measured), expect.value)
        if not measured.is_number:
            return _item(entry, MISS, measured, reason=f"`{measured.value}` is not a number")
        measured = _in_unit(entry, measured)
        distance, inside = _distance(expect, float(measured.value))
        return _item(entry, HIT if inside else MISS, measured, distance=distance)

    def _ratio(self, entry: Entry, measured: Measured) -> Measured:
        below = self._reference(entry)
        if not below.is_number:
            raise NotMeasured(f"the reference of the ratio is `{below.value}`, not a number")
        divisor = units.convert(float(below.value), below.unit, measured.unit)
        if divisor == 0:
            raise NotMeasured("the reference of the ratio is zero")
        return Measured(float(measured.value) / divisor, "1", measured.count, measured.step)

    def _reference(self, entry: Entry) -> Measured:
        reference = entry.expect.ratio_to
        assert reference is not None
        if reference.entry is not None:
            return self._measure(self._entries[reference.entry])
        assert reference.metric is not None
        where = {**entry.where, **reference.where}
        found = quantity(reference.metric, reference.step, where, self._results, self._history)
        return self._heard(found)


def bounds(expect: Expect) -> tuple[float | None, float | None] | None:
    """The lowest and the highest hit; None where no number is expected within others."""
    if expect.kind == "interval":
        assert expect.interval is not None
        low, high = expect.interval
        return low, high
    if expect.kind == "hash" or not isinstance(expect.value, (int, float)):
        return None
    if expect.kind == "exact":
        return None if isinstance(expect.value, bool) else (expect.value, expect.value)
    width = _width(expect, expect.value)
    return expect.value - width, expect.value + width


def _width(expect: Expect, centre: float) -> float:
    return max(expect.abs or 0.0, (expect.rel or 0.0) * abs(centre))


def _in_unit(entry: Entry, measured: Measured) -> Measured:
    """The measured number in the entry's unit."""
    wanted = "1" if entry.expect.ratio_to else entry.unit
    if wanted == measured.unit or not measured.is_number:
        return measured
    value = units.convert(float(measured.value), measured.unit, wanted)
    return replace(measured, value=value, unit=wanted)


def _distance(expect: Expect, value: float) -> tuple[float, bool]:
    """How far a value lies from the centre, in tolerance widths, and whether that is a hit.

    With one open side the width is the size of the bound itself (or 1 at a bound of 0), and all of
    the inside is the centre. A value on a bound is a hit: rounding must not decide.
    """
    if expect.kind == "value":
        assert isinstance(expect.value, (int, float))
        distance = (value - expect.value) / _width(expect, expect.value)
        return _on_its_side(distance, abs(distance) <= 1 + _ROUNDING)
    assert expect.interval is not None
    low, high = expect.interval
    inside = (low is None or value >= low or math.isclose(value, low, rel_tol=_ROUNDING)) and (
        high is None or value <= high or math.isclose(value, high, rel_tol=_ROUNDING)
    )
    if low is not None and high is not None:
        return _on_its_side((value - (low + high) / 2) / ((high - low) / 2), inside)
    bound = low if low is not None else high
    assert bound is not None, "one side is closed"
    excess = (value - bound) / (abs(bound) or 1.0)
    return (0.0, True) if inside else (excess + math.copysign(1.0, excess), False)


def _on_its_side(distance: float, inside: bool) -> tuple[float, bool]:
    """A distance that rounding has not put on the other side of ±1."""
    if inside:
        return max(-1.0, min(1.0, distance)), True
    return (distance if abs(distance) > 1 else math.copysign(_BEYOND, distance)), False


def _exactly(entry: Entry, measured: Measured, wanted: Any) -> Item:
    if any(not equal(value, measured.values[0]) for value in measured.values):
        return _item(entry, MISS, measured, reason=disagreement(measured.values))
    return _item(entry, HIT if equal(measured.value, wanted) else MISS, measured)


def expectation(entry: Entry) -> str:
    """What was expected, as people write it."""
    expect = entry.expect
    unit = "" if entry.unit in ("", "1") or expect.ratio_to else f" {entry.unit}"
    prefix = "ratio " if expect.ratio_to else ""
    if expect.kind == "hash":
        return f"{expect.hash}"
    if expect.kind == "exact":
        return f"{prefix}= {expect.value}{unit}"
    if expect.kind == "interval":
        assert expect.interval is not None
        low, high = expect.interval
        if low is None:
            return f"{prefix}≤ {_number(high)}{unit}"
        if high is None:
            return f"{prefix}≥ {_number(low)}{unit}"
        return f"{prefix}{_number(low)} … {_number(high)}{unit}"
    parts = [f"±{expect.rel * 100:g} %"] if expect.rel else []
    parts += [f"±{_number(expect.abs)}"] if expect.abs else []
    return f"{prefix}{_number(expect.value)} {' or '.join(parts)}{unit}"


def _number(value: Any) -> str:
    """A bound as it was written: whole numbers with all their digits."""
    whole = value == int(value) and abs(value) < _EXACT
    return str(int(value)) if whole else f"{value:g}"


def _item(
    entry: Entry,
    status: str,
    measured: Measured | None = None,
    *,
    distance: float | None = None,
    reason: str = "",
) -> Item:
    return Item(
        id=entry.id,
        status=status,
        metric=entry.metric or entry.compute or "",
        where=dict(entry.where),
        measured=measured.value if measured else None,
        unit=measured.unit if measured else entry.unit,
        expected=expectation(entry),
        bounds=bounds(entry.expect),
        is_ratio=entry.expect.ratio_to is not None,
        distance=distance,
        reason=reason,
        severity=entry.severity,
        because=entry.because,
        decides=entry.decides,
        count=measured.count if measured else 0,
        step=entry.step or (measured.step if measured else ""),
    )


def _asked(entry: Entry) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """The metrics an entry needs, each with its step and its point."""
    for name in formula.metrics(entry.compute) if entry.compute else (entry.metric or "",):
        yield name, entry.step, entry.where
    below = entry.expect.ratio_to
    if below is not None and below.metric is not None:
        yield below.metric, below.step, {**entry.where, **below.where}


def _unpredicted(results: Sequence[Result], judge: _Judge) -> list[Item]:
    """An item for everything that was recorded, with a value or without, and not predicted."""
    found: dict[Place, list[Result]] = {}
    for result in results:
        found.setdefault(place_of(result), []).append(result)
    return [_new(matching) for matching in found.values() if not judge.speaks_of(matching)]


def _new(matching: Sequence[Result]) -> Item:
    first = matching[0]
    item = Item(first.metric, NEW, first.metric, dict(first.point), step=first.step)
    without = {result.status for result in matching} - {"ok"}
    if without:
        # A step that meant not to measure stops nobody; one that could not is no pass.
        severity = "info" if without <= _ON_PURPOSE else "blocker"
        item = replace(item, status=MISSING, severity=severity)
    try:
        measured = summary(matching)
    except NotMeasured as error:
        return replace(item, unit=first.unit, count=len(matching), reason=str(error))
    return replace(item, measured=measured.value, unit=measured.unit, count=measured.count)


def _worst_first(item: Item) -> tuple[int, int, float]:
    blocker_first = 0 if item.severity == "blocker" else 1
    return ORDER.index(item.status), blocker_first, -abs(item.distance or 0.0)
