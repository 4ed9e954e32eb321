"""Distance of floats in units in the last place: how many floats lie between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.unsignedinteger[Any]]

# Upper edges of the histogram; the last class holds everything beyond.
EDGES = (0, 1, 2, 4, 16, 256, 65536)


def distance(a: Bits, b: Bits, sign_bit: int) -> Bits:
    """Steps from each a to each b, as unsigned integers of the same size.

    Floats are sign and magnitude: on one side of zero the steps are the difference of the
    magnitudes, across zero their sum, and +0 and -0 are the same place. NaN has no place: leave
    it out.
    """
    kind = a.dtype.type
    if not sign_bit:
        return np.asarray(np.maximum(a, b) - np.minimum(a, b))
    mask = kind(sign_bit - 1)
    one, two = a & mask, b & mask
    same_side = (a ^ b) < kind(sign_bit)
    apart = np.maximum(one, two) - np.minimum(one, two)
    # Two magnitudes below half of the range: their sum does not wrap.
    return np.asarray(np.where(same_side, apart, one + two))


class Histogram:
    """Counts of distances by class: 0, 1, 2, 3-4, 5-16, ..."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES) + 1)
        self.largest = 0

    def add_zeros(self, count: int) -> None:
        self.counts[0] += count

    def add(self, distances: Bits) -> None:
        if not distances.size:
            return
        self.largest = max(self.largest, int(distances.max()))
        below = 0
        for place, edge in enumerate(EDGES):
            # An 8-bit distance never reaches the far edges.
            fits = edge <= np.iinfo(distances.dtype).max
            count = int(np.count_nonzero(distances <= edge)) if fits else distances.size
            self.counts[place] += count - below
            below = count
            if below == distances.size:
                return
        self.counts[-1] += distances.size - below

    def metrics(self) -> Iterator[tuple[str, int]]:
        """`ulp_max`, then the count of each class that has any."""
        yield "ulp_max", self.largest
        low = 0
        for edge, count in zip((*EDGES, None), self.counts, strict=True):
            if edge is None:
                name = f"ulp_over_{EDGES[-1]}"
            else:
                name = f"ulp_{edge}" if low >= edge else f"ulp_{low}_to_{edge}"
                low = edge + 1
            if count:
                yield name, count
