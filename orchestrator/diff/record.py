"""The one record that every comparison of two artifacts ends in, whatever their type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal[
    "equal",
    "equal_after_masks",
    "within",
    "different",
    "only_a",
    "only_b",
    "unreadable",
    "skipped",
]
# Worst first: the order in which people read them.
ORDER: tuple[Status, ...] = (
    "unreadable",
    "different",
    "only_a",
    "only_b",
    "skipped",
    "within",
    "equal_after_masks",
    "equal",
)
# What `orch diff --exit-code` and a review need not look at.
SETTLED: frozenset[Status] = frozenset({"equal", "equal_after_masks", "within"})


@dataclass(frozen=True)
class Location:
    """One place where two artifacts differ: a line, a JSON path, an index, a kernel, a pixel."""

    where: str
    a: str = ""
    b: str = ""
    size: float | None = None


@dataclass(frozen=True)
class Record:
    """What a comparison found.

    `metrics` are named numbers of the type (max_abs, changed_lines, ...); a metric that could not
    be computed is absent, never 0. `masks` counts what each mask hid, so that `equal_after_masks`
    is never mistaken for `equal`. `locations` are the first few, `more` how many more there are.
    """

    path: str
    type: str
    status: Status
    metrics: Mapping[str, float] = field(default_factory=dict)
    locations: Sequence[Location] = ()
    more: int = 0
    masks: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    tolerance: str = ""
    size_a: int | None = None
    size_b: int | None = None
    children: Sequence[Record] = ()

    def as_json(self) -> dict[str, Any]:
        """The record as JSON, without what is empty."""
        shown: dict[str, Any] = {"path": self.path, "type": self.type, "status": self.status}
        for name in ("note", "tolerance", "size_a", "size_b", "more"):
            value = getattr(self, name)
            if value not in ("", None, 0):
                shown[name] = value
        if self.metrics:
            shown["metrics"] = dict(self.metrics)
        if self.masks:
            shown["masks"] = dict(self.masks)
        if self.locations:
            shown["locations"] = [
                {k: v for k, v in vars(place).items() if v not in ("", None)}
                for place in self.locations
            ]
        if self.children:
            shown["children"] = [child.as_json() for child in self.children]
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Record:
        """The record that `as_json` wrote.

        Raises:
            ValueError: it is no record. Its writer reads untrusted files, and anything may come.
        """
        try:
            if shown["status"] not in ORDER:
                raise ValueError(f"no status is named {shown['status']!r}")
            return cls(
                path=str(shown["path"]),
                type=str(shown["type"]),
                status=shown["status"],
                metrics={str(k): _number(v) for k, v in shown.get("metrics", {}).items()},
                locations=tuple(_location(place) for place in shown.get("locations", ())),
                more=int(shown.get("more", 0)),
                masks={str(k): int(v) for k, v in shown.get("masks", {}).items()},
                note=str(shown.get("note", "")),
                tolerance=str(shown.get("tolerance", "")),
                size_a=_size(shown.get("size_a")),
                size_b=_size(shown.get("size_b")),
                children=tuple(cls.from_json(child) for child in shown.get("children", ())),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a record: {error!r}") from error


def _location(shown: Mapping[str, Any]) -> Location:
    size = shown.get("size")
    return Location(
        str(shown["where"]),
        str(shown.get("a", "")),
        str(shown.get("b", "")),
        None if size is None else _number(size),
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"not a finite number: {value!r}")
    return value


def _size(value: Any) -> int | None:
    return None if value is None else int(value)


def worst(statuses: Sequence[Status]) -> Status:
    """The status of a whole whose parts have these."""
    return min(statuses, key=ORDER.index, default="equal")
