"""When two numbers count as the same: |b - a| ≤ abs + rel · |a|, with A as the reference.

This is the rule of numpy's and torch's `allclose`. An infinity is equal to itself only; NaN is
equal to NaN where the rule says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.spec.compare import CompareRule

Number = int | float


@dataclass(frozen=True)
class Tolerance:
    """A relative and an absolute tolerance; both 0 means exact."""

    rel: float = 0.0
    abs: float = 0.0
    nan_equal: bool = True

    @classmethod
    def of(cls, rule: CompareRule) -> Tolerance:
        return cls(rule.rel or 0.0, rule.abs or 0.0, rule.nan == "equal")

    @property
    def is_exact(self) -> bool:
        return self.rel == 0 and self.abs == 0

    def same(self, a: Number, b: Number) -> bool:
        """Whether two numbers are equal without any tolerance."""
        if _is_nan(a) or _is_nan(b):
            return self.nan_equal and _is_nan(a) and _is_nan(b)
        return a == b

    def allows(self, a: Number, b: Number) -> bool:
        """Whether b is within the tolerance around a."""
        if self.same(a, b):
            return True
        try:
            distance, width = abs(b - a), abs(a) * self.rel + self.abs
            return math.isfinite(distance) and distance <= width
        except OverflowError:
            # Whole numbers beyond every float: nothing but equality can be said of them.
            return False

    def __str__(self) -> str:
        parts = [f"rel {self.rel:g}"] if self.rel else []
        parts += [f"abs {self.abs:g}"] if self.abs else []
        parts += [] if self.nan_equal else ["NaN is different"]
        return ", ".join(parts)


def distances(a: Number, b: Number) -> tuple[float | None, float | None]:
    """Absolute distance, and relative to |a|; None where there is none."""
    try:
        distance = float(abs(b - a))
        if not math.isfinite(distance):
            return None, None
        return distance, distance / abs(a) if a else None
    except OverflowError:
        return None, None


def _is_nan(value: Number) -> bool:
    return isinstance(value, float) and math.isnan(value)
