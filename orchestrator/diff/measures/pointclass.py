"""What kind of numbers a point has: stable, fluctuating, bimodal; and the centre that suits it.

The unit is the block: one fresh process. Samples inside a block share its offset and are no
independent evidence. Constants and thresholds: research note on benchmark comparison, sections 3.3
and 3.4 (calibrated by simulation to at most 3 % false alarms over six unimodal distributions).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

PointClass = Literal["exact", "stable", "fluctuating", "bimodal", "too_few"]

# Fewer blocks than these have no class, no centre and no verdict.
FEWEST = 6
_STABLE_MAD = 0.01
_STABLE_RANGE = 0.03
# A median absolute deviation times this estimates the standard deviation of a normal sample.
_MAD_SCALE = 1.4826
_LEAST_GAP = 0.01
_LEAST_SPREAD = 0.0005
# How many pooled standard deviations two modes must lie apart, by number of blocks.
_THRESHOLDS = ((6, 6.5), (8, 5.75), (10, 4.75), (12, 3.25), (16, 3.0), (20, 2.75), (30, 1.75))
_FLOOR_EPSILON = 0.01
_FLOOR_BLOCKS = 3


@dataclass(frozen=True)
class Block:
    """One fresh process: the median of its samples, and the best of them."""

    median: float
    best: float


@dataclass(frozen=True)
class Modes:
    """Two clusters of block medians: centre and share of each, lower one first."""

    low: float
    high: float
    low_share: float


@dataclass(frozen=True)
class Floor:
    """The median of the three best blocks; `repeated` when the third lies close to the first."""

    value: float
    repeated: bool


def classify(medians: Sequence[float]) -> PointClass:
    """The class of one side's blocks. Values must be above zero."""
    if len(medians) < FEWEST:
        return "too_few"
    if modes(medians) is not None:
        return "bimodal"
    centre = statistics.median(medians)
    spread = _MAD_SCALE * statistics.median(abs(value - centre) for value in medians) / centre
    reach = (max(medians) - min(medians)) / centre
    return "stable" if spread <= _STABLE_MAD and reach <= _STABLE_RANGE else "fluctuating"


def modes(medians: Sequence[float]) -> Modes | None:
    """Two modes, or None where one cannot be excluded.

    Split at the largest gap of the sorted logarithms that leaves at least two blocks on each side
    (15 % from 12 blocks on); the gap must be 1 % and a multiple of the spread inside the clusters.
    """
    count = len(medians)
    if count < FEWEST:
        return None
    logs = sorted(math.log(value) for value in medians)
    least = 2 if count < 12 else max(3, math.ceil(0.15 * count))
    gap, split = max((logs[i] - logs[i - 1], i) for i in range(least, count - least + 1))
    low, high = logs[:split], logs[split:]
    spread = max(_pooled_deviation(low, high), _LEAST_SPREAD)
    if gap < _LEAST_GAP or gap / spread < threshold(count):
        return None
    return Modes(math.exp(statistics.mean(low)), math.exp(statistics.mean(high)), split / count)


def threshold(count: int) -> float:
    """Spreads between two modes that a number of blocks needs; linear between table rows."""
    if count >= _THRESHOLDS[-1][0]:
        return _THRESHOLDS[-1][1]
    for (n1, t1), (n2, t2) in pairwise(_THRESHOLDS):
        if count <= n2:
            return t1 + (t2 - t1) * (count - n1) / (n2 - n1)
    raise AssertionError("the last row was looked at first")


def floor(blocks: Sequence[Block], *, higher_is_better: bool = False) -> Floor:
    """The level that interference cannot fake: it makes times longer and rates smaller.

    Args:
        higher_is_better: for rates the best blocks are the largest.
    """
    best = sorted((block.best for block in blocks), reverse=higher_is_better)[:_FLOOR_BLOCKS]
    repeated = len(best) == _FLOOR_BLOCKS and abs(best[-1] / best[0] - 1) <= _FLOOR_EPSILON
    return Floor(statistics.median(best), repeated)


def _pooled_deviation(low: Sequence[float], high: Sequence[float]) -> float:
    squares = sum(
        sum((value - statistics.mean(cluster)) ** 2 for value in cluster) for cluster in (low, high)
    )
    return math.sqrt(squares / (len(low) + len(high) - 2))
