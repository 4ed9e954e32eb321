"""One metric at one point, on both sides: what can be said without a test of significance.

This is the narrow place where an A/B verdict goes in: `contrast` takes the blocks of two sides and
returns what a line of the comparison shows. Nothing here is called faster or slower.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.diff.measures.pointclass import (
    FEWEST,
    Block,
    Modes,
    PointClass,
    classify,
    floor,
    modes,
)

Outcome = Literal[
    "equal",  # exact values, and the same
    "different",  # exact values, and not
    "measured",  # both sides have a centre; the ratio stands
    "too_few",  # fewer than six blocks on a side: ranges and ratio, no class
    "ambiguous",  # not stable, and the floor was not repeated
    "not_comparable",
    "only_a",
    "only_b",
    "no_value",  # recorded as unknown, skipped or failed on a side
]


@dataclass(frozen=True)
class Series:
    """The blocks of one side, in the order of the rounds; `exact` values have no blocks."""

    unit: str
    blocks: tuple[Block, ...] = ()
    exact: tuple[Any, ...] = ()
    timing: tuple[tuple[str, Any], ...] = ()
    higher_is_better: bool = False

    @property
    def medians(self) -> list[float]:
        return [block.median for block in self.blocks]

    @property
    def levels(self) -> list[float]:
        """Every number that a ratio may be taken of."""
        return [level for block in self.blocks for level in (block.median, block.best)]


@dataclass(frozen=True)
class Level:
    """What one side comes to."""

    count: int
    low: float | None = None
    high: float | None = None
    median: float | None = None
    point_class: PointClass = "too_few"
    centre: float | None = None
    centre_kind: str = ""
    modes: Modes | None = None
    value: Any = None

    def as_json(self) -> dict[str, Any]:
        shown = {key: value for key, value in vars(self).items() if value not in (None, "")}
        if self.modes is not None:
            shown["modes"] = vars(self.modes)
        return shown


@dataclass(frozen=True)
class Contrast:
    """Both sides and what their relation is. `ratio` is B over A, None where there is none."""

    outcome: Outcome
    a: Level
    b: Level
    unit: str = ""
    ratio: float | None = None
    ratio_range: tuple[float, float] | None = None
    """The smallest and largest ratio of any block of B to any block of A."""
    reason: str = ""


def contrast(a: Series, b: Series) -> Contrast:
    """Compare two series of the same unit and the same way of timing."""
    if a.exact or b.exact:
        return _exact(a, b)
    if min((level for side in (a, b) for level in side.levels), default=0.0) <= 0:
        return _without_ratio(a, b)
    kinds = classify(a.medians), classify(b.medians)
    if "too_few" in kinds:
        ratio = statistics.median(b.medians) / statistics.median(a.medians)
        reason = f"{len(a.blocks)} and {len(b.blocks)} blocks; a verdict needs {FEWEST}"
        return _made("too_few", a, b, kinds, ratio, reason)
    if kinds == ("stable", "stable"):
        centres = statistics.median(a.medians), statistics.median(b.medians)
        return _made("measured", a, b, kinds, centres[1] / centres[0], "", centres, "median")
    # What others may disturb is compared by what nothing can fake, on both sides alike.
    floors = [floor(side.blocks, higher_is_better=side.higher_is_better) for side in (a, b)]
    if not all(found.repeated for found in floors):
        side = "A" if not floors[0].repeated else "B"
        reason = f"the best blocks of {side} do not repeat; take more rounds on a quieter host"
        return _made("ambiguous", a, b, kinds, None, reason)
    values = floors[0].value, floors[1].value
    return _made("measured", a, b, kinds, values[1] / values[0], "", values, "floor")


def alone(side: Series) -> Level:
    """What a side comes to that has nothing beside it: its value, or its blocks and their class."""
    if side.exact:
        return _exact_level(side)
    return _level(side, classify(side.medians))


def _exact_level(side: Series) -> Level:
    return Level(len(side.exact), point_class="exact", value=_common(side.exact))


def _exact(a: Series, b: Series) -> Contrast:
    one, two = _exact_level(a), _exact_level(b)
    for name, side in (("A", a), ("B", b)):
        if any(_typed(value) != _typed(side.exact[0]) for value in side.exact):
            shown = ", ".join(sorted({str(value) for value in side.exact})[:4])
            return Contrast("different", one, two, a.unit, reason=f"the rounds of {name}: {shown}")
    outcome: Outcome = "equal" if _typed(one.value) == _typed(two.value) else "different"
    return Contrast(outcome, one, two, a.unit, _ratio_of(one.value, two.value))


def _ratio_of(one: Any, two: Any) -> float | None:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (one, two))
    try:
        return float(two / one) if numbers and one else None
    except OverflowError:
        # Whole numbers beyond every float have no ratio that could be shown.
        return None


def _common(values: Sequence[Any]) -> Any:
    return values[0] if values and all(_typed(v) == _typed(values[0]) for v in values) else None


def _typed(value: Any) -> tuple[bool, Any]:
    """`true` is not 1."""
    return isinstance(value, bool), value


def _without_ratio(a: Series, b: Series) -> Contrast:
    """Values at or below zero have no ratio and no class: both rest on logarithms."""
    few = min(len(a.blocks), len(b.blocks)) < FEWEST
    kind: PointClass = "too_few" if few else "fluctuating"
    reason = "no ratio: a value is not above zero"
    outcome: Outcome = "too_few" if few else "measured"
    return Contrast(outcome, _level(a, kind), _level(b, kind), a.unit, reason=reason)


def _made(
    outcome: Outcome,
    a: Series,
    b: Series,
    kinds: tuple[PointClass, PointClass],
    ratio: float | None,
    reason: str,
    centres: tuple[float, float] | None = None,
    centre_kind: str = "",
) -> Contrast:
    levels = [
        _level(side, kind, centres[index] if centres else None, centre_kind)
        for index, (side, kind) in enumerate(zip((a, b), kinds, strict=True))
    ]
    reach = (min(b.medians) / max(a.medians), max(b.medians) / min(a.medians))
    return Contrast(outcome, levels[0], levels[1], a.unit, ratio, reach, reason)


def _level(
    side: Series, kind: PointClass, centre: float | None = None, centre_kind: str = ""
) -> Level:
    medians = side.medians
    return Level(
        count=len(medians),
        low=min(medians),
        high=max(medians),
        median=statistics.median(medians),
        point_class=kind,
        centre=centre,
        centre_kind=centre_kind,
        modes=modes(medians) if kind == "bimodal" else None,
    )
