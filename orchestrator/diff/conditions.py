"""Under which conditions two runs were made: what differs, identity before state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.verdict.conditions import Conditions, Drift, Field, differs, drifted

IDENTITY, STATE, INFO = "identity", "condition", "info"
_ORDER = (IDENTITY, STATE, INFO)
_ABSENT = Field("unknown", detail="not in the snapshot")
# These differ between any two snapshots and say nothing about either.
_MOVING = frozenset({"time.utc", "time.uptime", "snapshot.raw"})


@dataclass(frozen=True)
class Change:
    """One fact of the host that is not the same on both sides.

    A fact that is known on one side only is a change: what is not known is not equal.
    """

    name: str
    severity: str
    a: Field
    b: Field

    @property
    def delta(self) -> float | None:
        """Relative change of a number; None for everything else, and from 0."""
        one, two = self.a.value, self.b.value
        if not (_is_number(one) and _is_number(two)) or not one:
            return None
        try:
            return float(two - one) / abs(float(one))
        except OverflowError:
            # A whole number beyond every float.
            return None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "severity": self.severity,
            "a": _field_json(self.a),
            "b": _field_json(self.b),
        }


@dataclass(frozen=True)
class ConditionDiff:
    """All that differs, and how much is not known on either side."""

    changes: tuple[Change, ...] = ()
    same: int = 0
    unknown: int = 0
    """Identity facts that neither side knows: no difference is seen, and none is excluded."""
    drifted: tuple[tuple[str, Drift], ...] = ()
    """Identity facts that are not the same before and after one of the runs, with its side."""
    missing: bool = False
    """Neither run has a snapshot of its host."""

    @property
    def identity(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.severity == IDENTITY)

    @property
    def state(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.severity == STATE)

    @property
    def obstacle(self) -> str:
        """Why no metric of the two runs may be compared; empty when nothing stands in the way."""
        if self.missing:
            return "no snapshot of either host came home"
        if self.drifted:
            side, drift = self.drifted[0]
            return f"{side}: {drift.name} {drift.moment}"
        if not self.identity:
            return ""
        more = f" and {len(self.identity) - 1} more" if len(self.identity) > 1 else ""
        return f"{self.identity[0].name} differs{more}"

    def as_json(self) -> dict[str, Any]:
        return {
            "changes": [change.as_json() for change in self.changes],
            "same": self.same,
            "unknown_on_both_sides": self.unknown,
            "drifted": [f"{side}: {drift.name}" for side, drift in self.drifted],
        }


def compare(a: Conditions, b: Conditions, run_id_a: str = "", run_id_b: str = "") -> ConditionDiff:
    """Compare the snapshots taken before the first step of each run.

    Args:
        run_id_a, run_id_b: a run's own id in a value, such as the path of its caches, is no
            difference.
    """
    if not a.before and not b.before:
        return ConditionDiff(missing=True)
    changes, same, unknown = [], 0, 0
    for name in sorted({*a.before, *b.before, "caches"} - _MOVING):
        one, two = (_get(side, name) for side in (a, b))
        severity = STATE if name == "caches" else _severity(one, two)
        if differs(one, two, (run_id_a, run_id_b)):
            changes.append(Change(name, severity, one, two))
        elif one.state in ("unknown", "error") and severity == IDENTITY:
            unknown += 1
        else:
            same += 1
    changes.sort(key=lambda change: _ORDER.index(change.severity))
    moved = tuple((side, drift) for side, run in (("A", a), ("B", b)) for drift in drifted(run))
    return ConditionDiff(tuple(changes), same, unknown, moved)


def _get(side: Conditions, name: str) -> Field:
    return side.get(name) if name == "caches" else side.before.get(name, _ABSENT)


def _severity(one: Field, two: Field) -> str:
    """The graver of both: a fact that one side does not have has no severity there."""
    known = [field.severity for field in (one, two) if field.severity in _ORDER]
    return min(known, key=_ORDER.index, default=INFO)


def _field_json(field: Field) -> dict[str, Any]:
    shown = {"state": field.state, "value": field.value, "unit": field.unit}
    return {key: value for key, value in shown.items() if value not in ("", None)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
