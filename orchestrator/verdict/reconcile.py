"""The ledger against the results, item by item: hit, miss, missing, not comparable, new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.spec import formula
from orchestrator.spec.ledger import Entry, Ledger, by_id
from orchestrator.store.history import History
from orchestrator.store.results import Result
from orchestrator.verdict import expected, units
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, ORDER, Item
from orchestrator.verdict.measured import (
    Measured,
    NotMeasured,
    computed,
    disagreement,
    quantity,
    summary,
)
from orchestrator.verdict.recorded import Place, Recorded, equal, holds, place_of

# A step says so where it did not try to measure.
_ON_PURPOSE = frozenset({"skipped", "not_applicable"})


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
        self._recorded = Recorded(results, history)
        self._conditions = conditions
        self._spoken_for: set[Place] = set()
        self._asked_for = [question for entry in entries.values() for question in _asked(entry)]

    def item(self, entry: Entry) -> Item:
        unmet = self._conditions.unmet(entry.requires)
        try:
            measured = self._measure(entry)
        except NotMeasured as error:
            self._spoken_for.update(error.places)
            return _item(entry, NOT_COMPARABLE if unmet else MISSING, reason=unmet or str(error))
        if unmet:
            return _item(entry, NOT_COMPARABLE, measured, reason=unmet)
        try:
            return self._judge(entry, measured)
        except NotMeasured as error:
            self._spoken_for.update(error.places)
            return _item(entry, MISSING, measured, reason=str(error))
        except units.UnitMismatch as error:
            return _item(entry, NOT_COMPARABLE, measured, reason=str(error))

    def _measure(self, entry: Entry) -> Measured:
        where = (entry.step, entry.where, self._recorded)
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
        distance, inside = expected.distance(expect, float(measured.value))
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
        found = quantity(reference.metric, reference.step, where, self._recorded)
        return self._heard(found)


def _in_unit(entry: Entry, measured: Measured) -> Measured:
    """The measured number in the entry's unit."""
    wanted = "1" if entry.expect.ratio_to else entry.unit
    if wanted == measured.unit or not measured.is_number:
        return measured
    value = units.convert(float(measured.value), measured.unit, wanted)
    return replace(measured, value=value, unit=wanted)


def _exactly(entry: Entry, measured: Measured, wanted: Any) -> Item:
    if any(not equal(value, measured.values[0]) for value in measured.values):
        return _item(entry, MISS, measured, reason=disagreement(measured.values))
    return _item(entry, HIT if equal(measured.value, wanted) else MISS, measured)


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
        expected=expected.words(entry),
        bounds=expected.bounds(entry.expect),
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
