"""Two documents (mappings, lists, scalars) side by side, path by path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.diff.lines.align import align
from orchestrator.diff.numeric.tolerance import Tolerance, distances
from orchestrator.diff.record import Location, Status
from orchestrator.diff.refusal import Skipped

_MOST_DEPTH = 200
_MISSING = object()


@dataclass
class Changes:
    """What differs: paths such as `$.layers[3].name` or `$.cases[id=gemm].time`."""

    most_locations: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    within: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    locations: list[Location] = field(default_factory=list)
    more: int = 0

    @property
    def status(self) -> Status:
        if self.added or self.removed or self.changed:
            return "different"
        return "within" if self.within else "equal"

    @property
    def metrics(self) -> dict[str, float | None]:
        return {
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "within": self.within,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
        }

    def note(self, path: str, a: Any, b: Any, size: float | None = None) -> None:
        if len(self.locations) >= self.most_locations:
            self.more += 1
            return
        one, two = _shown(a), _shown(b)
        if one == two:
            # 1 and "1", null and "null": only their spelling tells them apart.
            one, two = _spelled(a), _spelled(b)
        self.locations.append(Location(path, one, two, size))


class Walk:
    """Compares values of two documents and gathers what differs.

    Args:
        keys: names that identify an item of a list of mappings; where a list has no such items on
            both sides, its items are compared in their order.
        most_nodes: a document may refer to itself many times over; more values than these are not
            looked at.
    """

    def __init__(
        self, tolerance: Tolerance, keys: Sequence[str], most_nodes: int, most_locations: int
    ) -> None:
        self._tolerance = tolerance
        self._keys = tuple(keys)
        self._left = most_nodes
        self.changes = Changes(most_locations)

    def compare(self, a: Any, b: Any) -> Changes:
        """Walk both documents from their roots.

        Raises:
            Skipped: they have more values than may be looked at, or are nested too deeply.
        """
        self._compare("$", a, b, 0)
        return self.changes

    def _compare(self, path: str, a: Any, b: Any, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise Skipped("has more values than are looked at")
        if depth > _MOST_DEPTH:
            raise Skipped(f"is nested deeper than {_MOST_DEPTH}")
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            self._mappings(path, a, b, depth)
        elif isinstance(a, list) and isinstance(b, list):
            self._lists(path, a, b, depth)
        elif _is_number(a) and _is_number(b):
            self._numbers(path, a, b)
        elif type(a) is not type(b) or a != b:
            self.changes.changed += 1
            self.changes.note(path, a, b)

    def _mappings(self, path: str, a: Mapping[Any, Any], b: Mapping[Any, Any], depth: int) -> None:
        for key in [*a, *(key for key in b if key not in a)]:
            self._side_by_side(
                f"{path}.{_step(key)}", a.get(key, _MISSING), b.get(key, _MISSING), depth
            )

    def _lists(self, path: str, a: list[Any], b: list[Any], depth: int) -> None:
        named_a, named_b = self._named(a), self._named(b)
        if named_a is not None and named_b is not None:
            for name in [*named_a, *(name for name in named_b if name not in named_a)]:
                one, two = named_a.get(name, _MISSING), named_b.get(name, _MISSING)
                self._side_by_side(f"{path}[{name}]", one, two, depth)
        elif len(a) == len(b):
            for index, (one, two) in enumerate(zip(a, b, strict=True)):
                self._compare(f"{path}[{index}]", one, two, depth + 1)
        else:
            self._shifted(path, a, b, depth)

    def _shifted(self, path: str, a: list[Any], b: list[Any], depth: int) -> None:
        """Lists of different lengths: items that look the same on both sides belong together."""
        for span in align([_look(item) for item in a], [_look(item) for item in b]):
            for offset in range(max(span.a2 - span.a1, span.b2 - span.b1)):
                at_a, at_b = span.a1 + offset, span.b1 + offset
                one = a[at_a] if at_a < span.a2 else _MISSING
                two = b[at_b] if at_b < span.b2 else _MISSING
                self._side_by_side(f"{path}[{at_b if one is _MISSING else at_a}]", one, two, depth)

    def _side_by_side(self, path: str, one: Any, two: Any, depth: int) -> None:
        if one is _MISSING:
            self.changes.added += 1
            self.changes.note(path, _MISSING, two)
        elif two is _MISSING:
            self.changes.removed += 1
            self.changes.note(path, one, _MISSING)
        else:
            self._compare(path, one, two, depth + 1)

    def _numbers(self, path: str, a: float, b: float) -> None:
        if self._tolerance.same(a, b):
            return
        absolute, relative = distances(a, b)
        if absolute is not None:
            self.changes.max_abs = max(self.changes.max_abs or 0.0, absolute)
        if relative is not None:
            self.changes.max_rel = max(self.changes.max_rel or 0.0, relative)
        if self._tolerance.allows(a, b):
            self.changes.within += 1
        else:
            self.changes.changed += 1
            self.changes.note(path, a, b, relative if relative is not None else absolute)

    def _named(self, items: list[Any]) -> dict[str, Any] | None:
        """Items by what identifies them; None where they have no such names, or share one."""
        if not self._keys or not all(_has_all(item, self._keys) for item in items):
            return None
        named = {
            ",".join(f"{key}={_shown(item[key])}" for key in self._keys): item for item in items
        }
        return named if len(named) == len(items) else None


def _has_all(item: Any, keys: Sequence[str]) -> bool:
    return isinstance(item, Mapping) and all(key in item for key in keys)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _step(key: Any) -> str:
    text = str(key)
    return text if text.isidentifier() else json.dumps(text, ensure_ascii=False)


def _shown(value: Any) -> str:
    """A value for people; the absence of one is an empty text."""
    if value is None or value is _MISSING:
        return "null" if value is None else ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"{{{len(value)} keys}}"
    if isinstance(value, list):
        return f"[{len(value)} items]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spelled(value: Any) -> str:
    """A value with what gives its type away: quotes around text, else the name of the type."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    shown = _shown(value)
    is_plain = value is None or isinstance(value, (bool, int, float, Mapping, list))
    return shown if is_plain else f"{shown} ({type(value).__name__})"


def _look(item: Any, depth: int = 3) -> Any:
    """Something hashable that is the same for items that are the same; deep down it looks away."""
    if isinstance(item, Mapping):
        inner = [(str(k), _look(v, depth - 1)) for k, v in item.items()] if depth else []
        return ("mapping", len(item), frozenset(inner))
    if isinstance(item, list):
        inner_items = tuple(_look(v, depth - 1) for v in item[:100]) if depth else ()
        return ("list", len(item), inner_items)
    return (type(item).__name__, str(item))
