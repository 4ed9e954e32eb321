"""How far apart two tensors are as wholes: |a|, |b| and |b - a|, and the worst row.

Squares are summed over short stretches in the tensors' own precision and added up in float64. The
cosine is taken from these three: for nearly equal tensors a sum of products would lose every digit
that matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from orchestrator.diff.numeric.dtypes import Array

# Stretches whose squares are summed in single precision.
_STRETCH = 1024


@dataclass
class Norms:
    """Sums of squares so far.

    `row` is the number of elements of a row, 0 where rows say nothing.
    """

    row: int = 0
    worst_row: float = 0.0
    worst_row_index: int | None = None
    aa: float = 0.0
    bb: float = 0.0
    dd: float = 0.0

    def add(self, aa: float, bb: float, dd: float) -> None:
        """Take in sums of the squares of a, of b and of b - a."""
        self.aa += aa
        self.bb += bb
        self.dd += dd

    def squares(self, values: Array) -> float:
        """The sum of all squares, in float64."""
        return float(self.row_squares(values).sum(dtype="f8"))

    def row_squares(self, values: Array) -> Array:
        """Sums of squares of each row, or of stretches of a tensor that has none."""
        length = self.row or _STRETCH
        whole = values.size // length * length
        body = values[:whole].reshape(-1, length)
        sums: Array = np.einsum("ij,ij->i", body, body)
        rest = values[whole:]
        return np.append(sums, np.dot(rest, rest)) if rest.size else sums

    def rows(self, aa: Array, dd: Array, start: int) -> None:
        """Keep the row that is farthest off, of rows whose first element is `start`."""
        if not self.row or not dd.any():
            return
        # A row of zeros has no relative distance; the elements' own distances speak for it.
        ratio = np.divide(dd, aa, out=np.zeros_like(dd), where=aa > 0)
        worst = int(ratio.argmax())
        distance_of_row = math.sqrt(float(ratio[worst]))
        if distance_of_row > self.worst_row:
            self.worst_row = distance_of_row
            self.worst_row_index = start // self.row + worst

    @property
    def rel_l2(self) -> float:
        """|b - a| / |a|; infinite when a is zero and b is not."""
        if self.dd == 0:
            return 0.0
        return math.sqrt(self.dd / self.aa) if self.aa else math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both; NaN when one of them is zero."""
        if not self.aa or not self.bb:
            return math.nan
        norm_a, norm_b = math.sqrt(self.aa), math.sqrt(self.bb)
        apart = (self.dd - (norm_a - norm_b) ** 2) / (2 * norm_a * norm_b)
        return max(-1.0, min(1.0, 1 - apart))
