"""Files of many named tensors: matched by name, renamed ones by equal content, each compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from orchestrator.diff.blob import PIECE_BYTES
from orchestrator.diff.numeric.stream import Stored
from orchestrator.diff.pair import Pair, brief, shorten
from orchestrator.diff.record import ORDER, Location, Record, worst
from orchestrator.diff.types.array import compare_stored

Opener = Callable[[], AbstractContextManager[Stored]]
Tensors = Mapping[str, Opener]
# What is told of the whole file: the worst of all tensors.
_LARGEST = ("max_abs", "max_rel", "rel_l2", "worst_row_rel_l2", "ulp_max")
_SUMS = ("nan_a", "nan_b", "inf_a", "inf_b", "special_mismatches", "outside")


@dataclass
class _Whole:
    """All tensors of a pair so far; a child only for those that are not equal."""

    children: list[Record] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, child: Record) -> None:
        self.counts[child.status] = self.counts.get(child.status, 0) + 1
        for name in _LARGEST:
            if name in child.metrics:
                self.largest[name] = max(self.largest.get(name, 0.0), child.metrics[name])
        for name in _SUMS:
            if child.metrics.get(name):
                self.largest[name] = self.largest.get(name, 0) + child.metrics[name]
        if child.status != "equal":
            self.children.append(child)


def compare(pair: Pair, a: Tensors, b: Tensors, extra: Sequence[Location] = ()) -> Record:
    """Compare two collections.

    Args:
        extra: differences outside the tensors, such as of the metadata.
    """
    whole = _Whole()
    tolerances: set[str] = set()
    for name in (name for name in a if name in b):
        with a[name]() as one, b[name]() as two:
            facts = compare_stored(one, two, pair.rule, pair.limits.locations)
        tolerances.add(facts.tolerance)
        whole.add(
            Record(
                shorten(name),
                "tensor",
                facts.status,
                metrics=facts.metrics,
                locations=tuple(map(brief, facts.locations)),
                more=facts.more,
                note=shorten(facts.note),
                tolerance=facts.tolerance,
            )
        )
    renamed = _one_sided(a, b, whole)
    places = [*extra, *(Location("renamed", old, new) for old, new in renamed)]
    return _record(pair, whole, places, len(renamed), tolerances)


def _one_sided(a: Tensors, b: Tensors, whole: _Whole) -> list[tuple[str, str]]:
    """Tensors of one side only; those with the same content under another name are pairs."""
    only_a = [name for name in a if name not in b]
    only_b = [name for name in b if name not in a]
    by_content: dict[tuple[str, str], list[str]] = {}
    if only_a and only_b:
        for name in only_b:
            by_content.setdefault(_content(b[name]), []).append(name)
    renamed = []
    for name in only_a:
        same = by_content.get(_content(a[name])) if by_content else None
        if same:
            renamed.append((name, same.pop(0)))
        else:
            whole.add(_lone(name, a[name], "only_a"))
    found = {new for _, new in renamed}
    for name in only_b:
        if name not in found:
            whole.add(_lone(name, b[name], "only_b"))
    return renamed


def _lone(name: str, opener: Opener, status: str) -> Record:
    with opener() as tensor:
        return Record(shorten(name), "tensor", status, note=shorten(tensor.words))  # type: ignore[arg-type]


def _content(opener: Opener) -> tuple[str, str]:
    """What two tensors share exactly when one is the other under another name."""
    with opener() as tensor:
        digest = hashlib.sha256()
        left = tensor.count * tensor.dtype.item_bytes
        while left:
            piece = tensor.file.read(min(left, PIECE_BYTES))
            if not piece:
                break
            digest.update(piece)
            left -= len(piece)
        return tensor.words, digest.hexdigest()


def _record(
    pair: Pair, whole: _Whole, places: list[Location], renamed: int, tolerances: set[str]
) -> Record:
    children = sorted(whole.children, key=lambda child: ORDER.index(child.status))
    kept = children[: pair.limits.children]
    status = worst([child.status for child in children])
    if status in ("only_a", "only_b") or (places and status in ("equal", "within")):
        # A tensor that came, went or was renamed is a difference of the whole file.
        status = "different"
    counts = {f"tensors_{name}": count for name, count in whole.counts.items()}
    if renamed:
        counts["tensors_renamed"] = renamed
    left_out = len(children) - len(kept)
    return pair.record(
        status,
        metrics={**counts, **whole.largest},
        locations=places,
        note=f"{left_out} more tensors are not equal" if left_out else "",
        tolerance="; ".join(sorted(tolerances)),
        children=kept,
    )
