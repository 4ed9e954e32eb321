"""The ledger against the results, item by item: hit, miss, missing, not comparable, new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.spec.ledger import Entry, Expect, Ledger, Reference, by_id
from orchestrator.store.history import History
from orchestrator.store.results import Result
from orchestrator.verdict import expected, units
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.derived import computed, ratio
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, ORDER, Item
from orchestrator.verdict.measured import (
    Measured,
    NotMeasured,
    converted,
    disagreement,
    quantity,
    summary,
)
from orchestrator.verdict.recorded import Place, Recorded, equal, place_of

# A step says so where it did not try to measure.
_ON_PURPOSE = frozenset({"skipped", "not_applicable"})


def reconcile(
    ledger: Ledger | None,
    results: Sequence[Result],
    history: History,
    conditions: Conditions,
    unreadable: Sequence[str] = (),
) -> list[Item]:
    """Every entry with its status, then everything that was recorded and not predicted.

    What was recorded without a value is missing, predicted or not. Without an entry that says how
    grave that is, `error` and `unknown` are blockers; `skipped` and `not_applicable` are not.
    """
    entries = ledger.entries if ledger else ()
    known = by_id(ledger) if ledger else {}
    judge = _Judge(known, Recorded(results, history, unreadable), conditions)
    items = [judge.item(entry) for entry in entries]
    items += _unpredicted(results, judge)
    return sorted(items, key=_worst_first)


class _Judge:
    """Holds what every entry is judged by."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        recorded: Recorded,
        conditions: Conditions,
    ) -> None:
        self._entries = entries
        self._recorded = recorded
        self._conditions = conditions
        self._spoken_for: set[Place] = set()

    def item(self, entry: Entry) -> Item:
        unmet = self._conditions.unmet(entry.requires)
        measured = self._heard(entry, self._measure)
        below = self._heard(entry, self._reference) if entry.expect.ratio_to else None
        if isinstance(measured, NotMeasured):
            return _item(entry, NOT_COMPARABLE if unmet else MISSING, reason=unmet or str(measured))
        if unmet:
            return _item(entry, NOT_COMPARABLE, measured, reason=unmet)
        try:
            return _judged(entry, measured, below)
        except NotMeasured as error:
            return _item(entry, MISSING, measured, reason=str(error))
        except units.UnitMismatch as error:
            return _item(entry, NOT_COMPARABLE, measured, reason=str(error))

    def speaks_of(self, place: Place) -> bool:
        """Whether an entry was judged by what this place recorded, or found no value there.

        One that names several places was judged by none and speaks for none.
        """
        return place in self._spoken_for

    def _heard(self, entry: Entry, ask: Callable[[Entry], Measured]) -> Measured | NotMeasured:
        """The answer, or why there is none; the entry speaks for the places of either."""
        found: Measured | NotMeasured
        try:
            found = ask(entry)
        except NotMeasured as error:
            found = error
        self._spoken_for.update(found.places)
        return found

    def _measure(self, entry: Entry) -> Measured:
        return self._quantity(entry, entry.expect)

    def _quantity(self, entry: Entry, expect: Expect) -> Measured:
        """What an entry measures, with each round's value where it is expected exactly."""
        where = (entry.step, entry.where, self._recorded)
        if entry.compute:
            by_round = expect.kind in ("exact", "hash")
            return computed(entry.compute, entry.unit, *where, by_round=by_round)
        assert entry.metric is not None, "an entry has a metric or an expression"
        return quantity(entry.metric, *where)

    def _reference(self, entry: Entry) -> Measured:
        reference = entry.expect.ratio_to
        assert reference is not None
        if reference.entry is not None:
            return self._quantity(self._entries[reference.entry], entry.expect)
        assert reference.metric is not None
        where = {**entry.where, **reference.where}
        try:
            return quantity(reference.metric, reference.step, where, self._recorded)
        except NotMeasured as error:
            hint = "" if error.places else _why_elsewhere(entry, reference, self._recorded)
            raise NotMeasured(f"{error}{hint}", error.places) from error


def _why_elsewhere(entry: Entry, reference: Reference, recorded: Recorded) -> str:
    """That a reference takes over an axis of its entry which it was recorded without."""
    assert reference.metric is not None
    where = {**entry.where, **reference.where}
    found = recorded.axes_of(reference.metric, reference.step)
    if any(axes >= where.keys() for axes in found):
        return ""
    for axes, step in found.items():
        lacking = [axis for axis in entry.where if axis not in axes | reference.where.keys()]
        if lacking and axes >= reference.where.keys():
            return (
                f"; `{step}` recorded it without the axis `{lacking[0]}`, which `ratio_to` takes "
                "over from the entry: `ratio_to: {entry: ...}` asks at a point of its own"
            )
    return ""


def _judged(entry: Entry, measured: Measured, below: Measured | NotMeasured | None) -> Item:
    expect = entry.expect
    if below is not None:
        if isinstance(below, NotMeasured):
            raise below
        if not measured.is_number:
            return _no_number(entry, measured)
        measured = ratio(measured, below, by_round=expect.exact)
    if expect.kind == "hash":
        return _exactly(entry, _agreed(measured), expect.hash)
    if expect.kind == "exact":
        return _exactly(entry, _in_unit(entry, _agreed(measured)), expect.value)
    if not measured.is_number:
        return _no_number(entry, measured)
    measured = _in_unit(entry, measured)
    distance, inside = expected.distance(expect, float(measured.value))
    return _item(entry, HIT if inside else MISS, measured, distance=distance)


def _no_number(entry: Entry, measured: Measured) -> Item:
    return _item(entry, MISS, measured, reason=f"`{measured.value}` is not a number")


def _in_unit(entry: Entry, measured: Measured) -> Measured:
    """The measured number in the entry's unit."""
    wanted = "1" if entry.expect.ratio_to else entry.unit
    if wanted == measured.unit or not measured.is_number:
        return measured
    return replace(measured, value=converted(measured, wanted), unit=wanted)


def _agreed(measured: Measured) -> Measured:
    """With what every round said, where they agree: what is computed of medians may differ."""
    if measured.unmatched:
        raise NotMeasured(measured.unmatched)
    first = measured.values[0]
    return replace(measured, value=first) if _agree(measured.values) else measured


def _agree(values: Sequence[Any]) -> bool:
    return all(equal(value, values[0]) for value in values)


def _exactly(entry: Entry, measured: Measured, wanted: Any) -> Item:
    if not _agree(measured.values):
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


def _unpredicted(results: Sequence[Result], judge: _Judge) -> list[Item]:
    """An item for everything that was recorded, with a value or without, and not predicted."""
    found: dict[Place, list[Result]] = {}
    for result in results:
        found.setdefault(place_of(result), []).append(result)
    return [_new(matching) for place, matching in found.items() if not judge.speaks_of(place)]


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
