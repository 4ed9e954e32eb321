"""Two blobs of one path, the rule they are compared by, and the way to the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from orchestrator.diff import limits
from orchestrator.diff.blob import Blob
from orchestrator.diff.limits import Limits
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Unreadable
from orchestrator.spec.compare import CompareRule

T = TypeVar("T")
# A location is for reading; a line of 50 MB is not.
_SHOWN_CHARACTERS = 200
_NOTE_CHARACTERS = 900


@dataclass(frozen=True)
class Pair:
    """What a type's `compare` gets."""

    path: str
    type: str
    a: Blob
    b: Blob
    rule: CompareRule
    limits: Limits = limits.DEFAULT

    def read(self, reader: Callable[[Blob], T]) -> tuple[T, T]:
        """Both sides through a reader.

        Raises:
            Unreadable: naming the side, or both, and what is wrong with each.
        """
        found: list[T] = []
        problems: list[str] = []
        for side, blob in (("A", self.a), ("B", self.b)):
            try:
                found.append(reader(blob))
            except Unreadable as error:
                problems.append(f"{side}: {error}")
        if problems:
            raise Unreadable("; ".join(problems))
        return found[0], found[1]

    def record(
        self,
        status: Status,
        *,
        metrics: Mapping[str, float | None] | None = None,
        locations: Sequence[Location] = (),
        more: int = 0,
        masks: Mapping[str, int] | None = None,
        note: str = "",
        tolerance: str = "",
        children: Sequence[Record] = (),
    ) -> Record:
        """The record of this pair. Metrics that are no finite number are left out."""
        kept = locations[: self.limits.locations]
        return Record(
            path=self.path,
            type=self.type,
            status=status,
            metrics=finite(metrics or {}),
            locations=tuple(brief(place) for place in kept),
            more=more + len(locations) - len(kept),
            masks=dict(masks or {}),
            note=shorten(note, _NOTE_CHARACTERS),
            tolerance=tolerance,
            size_a=self.a.size,
            size_b=self.b.size,
            children=tuple(children),
        )


def finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that have a value; whole numbers stay whole."""
    return {
        name: value if isinstance(value, int) else float(value)
        for name, value in metrics.items()
        if value is not None and math.isfinite(value)
    }


def shorten(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    """A text of a length that fits where it is shown, of characters that every encoding has."""
    kept = text[:most].encode("utf-8", "backslashreplace").decode("utf-8")
    return kept if len(text) <= most else f"{kept}... ({len(text)} characters)"


def brief(place: Location) -> Location:
    """A place with texts and a number that fit a record, whatever the file holds."""
    size = place.size if place.size is not None and math.isfinite(place.size) else None
    return Location(shorten(place.where), shorten(place.a), shorten(place.b), size)
