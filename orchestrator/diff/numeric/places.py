"""Where in a tensor two elements differ, and what stands there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.diff.numeric.dtypes import Array


def index_words(flat: int, shape: Sequence[int], parts: int, *, turned: bool) -> str:
    """The index of an element as its array has it: `[3, 0]`.

    Args:
        flat: its number in the order in which the elements lie.
        shape: lengths of the axes in that order; `parts` above 1 are the last of them.
        turned: the axes of the array come in reverse; its parts stay last.
    """
    if not shape:
        return "[]"
    index = [int(place) for place in np.unravel_index(flat, tuple(shape))]
    if turned:
        own = len(index) if parts == 1 else len(index) - 1
        index = index[:own][::-1] + index[own:]
    return f"[{', '.join(map(str, index))}]"


def values_at(a: Array, b: Array, at: int) -> tuple[str, str, float | None]:
    """Both elements as text, and their distance; None where it is not finite."""
    one, two = a[at].item(), b[at].item()
    apart = abs(two - one)
    return str(one), str(two), float(apart) if math.isfinite(apart) else None
