"""NaN and infinities in two tensors, counted apart so that the other figures stay finite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orchestrator.diff.numeric.dtypes import Array


@dataclass
class Specials:
    """Counts of what is not finite so far, and of the places where the two sides are unlike."""

    nan_a: int = 0
    nan_b: int = 0
    inf_a: int = 0
    inf_b: int = 0
    mismatches: int = 0

    def add(self, a: Array, b: Array, finite: Array, *, nan_equal: bool) -> Array:
        """Take in the next elements; returns the places that are not finite and not alike.

        Args:
            finite: bool, where both sides are.
            nan_equal: NaN on both sides is alike.
        """
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        self.nan_a += int(np.count_nonzero(nan_a))
        self.nan_b += int(np.count_nonzero(nan_b))
        self.inf_a += int(np.count_nonzero(np.isinf(a)))
        self.inf_b += int(np.count_nonzero(np.isinf(b)))
        alike = a == b
        if nan_equal:
            alike |= nan_a & nan_b
        strange = np.flatnonzero(~finite & ~alike)
        self.mismatches += strange.size
        return strange

    @property
    def count(self) -> int:
        """Elements of either side that are not finite."""
        return self.nan_a + self.nan_b + self.inf_a + self.inf_b

    def metrics(self) -> Iterator[tuple[str, int]]:
        """Each count that is not 0, under its name in a record."""
        counts = {
            "nan_a": self.nan_a,
            "nan_b": self.nan_b,
            "inf_a": self.inf_a,
            "inf_b": self.inf_b,
            "special_mismatches": self.mismatches,
        }
        yield from ((name, count) for name, count in counts.items() if count)
