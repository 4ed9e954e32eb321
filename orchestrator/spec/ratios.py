"""Ratios of a ledger that predict nothing: to no entry, of a quantity to itself, in a ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.errors import Problem
from orchestrator.spec.document import Document, NodePath

if TYPE_CHECKING:
    from orchestrator.spec.ledger import Entry, Reference


def problems(entries: Sequence[Entry], document: Document) -> Iterator[Problem]:
    """Mistakes of `ratio_to` that only the whole file shows."""
    known: dict[str, Entry] = {}
    for entry in entries:
        known.setdefault(entry.id, entry)
    following: dict[str, str] = {}
    at: dict[str, NodePath] = {}
    for index, entry in enumerate(entries):
        reference = entry.expect.ratio_to
        if reference is None:
            continue
        place = ("entries", index, "expect", "ratio_to")
        if reference.entry is not None and reference.entry not in known:
            yield document.problem(
                (*place, "entry"),
                f"no entry has the id `{reference.entry}`",
                "the id of an entry of this file",
            )
        elif _is_one(_asked(entry), _reference(entry, reference, known)):
            yield _to_itself(entry, reference, document, place)
        elif reference.entry is not None and known[entry.id] is entry:
            following[entry.id], at[entry.id] = reference.entry, place
    for ring in _rings(following):
        yield document.problem(
            at[ring[0]],
            "these ratios are a ring: " + " -> ".join((*ring, ring[0])),
            "ratios of which none follows from the others",
            "remove one of them, or give it another reference",
        )


@dataclass(frozen=True)
class _Asked:
    """A quantity as a ledger names it: a metric, or an expression in a unit."""

    name: tuple[str | None, str | None, str]
    step: str | None
    where: Mapping[str, Any]


def _asked(entry: Entry) -> _Asked:
    unit = "" if entry.compute is None else entry.unit
    return _Asked((entry.metric, entry.compute, unit), entry.step, entry.where)


def _reference(entry: Entry, reference: Reference, known: Mapping[str, Entry]) -> _Asked:
    if reference.entry is not None:
        return _asked(known[reference.entry])
    where = {**entry.where, **reference.where}
    return _Asked((reference.metric, None, ""), reference.step, where)


def _is_one(one: _Asked, other: _Asked) -> bool:
    """Whether two can only be measured as one: each is measured at a single point.

    Where one names all that the other names and more, its point is the other's as well.
    """
    return one.name == other.name and (_holds(one, other) or _holds(other, one))


def _holds(wide: _Asked, narrow: _Asked) -> bool:
    return wide.step in (None, narrow.step) and all(
        axis in narrow.where and _equal(narrow.where[axis], value)
        for axis, value in wide.where.items()
    )


def _equal(one: Any, other: Any) -> bool:
    """Equality in which `true` is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _to_itself(entry: Entry, reference: Reference, document: Document, at: NodePath) -> Problem:
    elsewhere = f"name its point: `ratio_to: {{metric: {reference.metric}, where: ...}}`"
    return document.problem(
        at,
        f"the ratio of `{entry.metric or entry.compute}` to itself at one point is always 1",
        "another quantity, or the same at another step or point",
        "name another entry" if reference.entry else elsewhere,
    )


def _rings(following: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """Ids that lead back to themselves, from the first that the file has."""
    order = {name: number for number, name in enumerate(following)}
    seen: set[str] = set()
    for first in following:
        trail: dict[str, int] = {}
        name = first
        while name in following and name not in seen:
            seen.add(name)
            trail[name] = len(trail)
            name = following[name]
        if name in trail:
            ring = list(trail)[trail[name] :]
            start = ring.index(min(ring, key=order.__getitem__))
            yield [*ring[start:], *ring[:start]]
