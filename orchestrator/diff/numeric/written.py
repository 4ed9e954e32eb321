"""Numbers as they stand in a text: `12`, `-0.5`, `1.2e-7`, `nan`, `8 MiB`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from orchestrator.diff.numeric.tolerance import Tolerance, distances

# A number that is no part of a word: `sm_90` has none, `x=90` has one.
IN_TEXT = re.compile(
    r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)(?!\w)"
)
_WITH_UNIT = re.compile(
    r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf|NaN|Inf))"
    r"(?:\s?([A-Za-zµμ%°][^\s\d]{0,15}))?\s*"
)
# A number of more digits is compared as text; arithmetic on it would take its time.
_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Closeness:
    """How two written numbers compare. `same` is exact, whatever their spelling."""

    same: bool
    within: bool
    absolute: float | None = None
    relative: float | None = None


def close(a: str, b: str, tolerance: Tolerance) -> Closeness:
    """Compare two texts that `IN_TEXT` or `cell` found to be numbers."""
    if a == b:
        is_nan = a.lower().lstrip("+-") == "nan"
        return Closeness(not is_nan or tolerance.nan_equal, not is_nan or tolerance.nan_equal)
    if max(len(a), len(b)) > _MOST_CHARACTERS:
        return Closeness(False, False)
    try:
        one, two = Decimal(a), Decimal(b)
    except ArithmeticError:
        # An exponent beyond what arithmetic goes to.
        return Closeness(False, False)
    if one.is_nan() or two.is_nan():
        both = one.is_nan() and two.is_nan() and tolerance.nan_equal
        return Closeness(both, both)
    # Two spellings of one float are one number; of whole numbers every digit counts.
    whole = a.lstrip("+-").isdigit() and b.lstrip("+-").isdigit()
    if one == two or (not whole and float(one) == float(two)):
        return Closeness(True, True, 0.0, 0.0)
    absolute, relative = distances(float(one), float(two))
    # Two numbers that differ beyond what a float tells apart are equal within any tolerance.
    within = not tolerance.is_exact and tolerance.allows(float(one), float(two))
    return Closeness(False, within, absolute, relative)


def cell(text: str) -> tuple[str, str] | None:
    """The number and the unit of a cell such as `12`, `8 MiB` or `95%`; None for other text."""
    if len(text) > _MOST_CHARACTERS:
        return None
    match = _WITH_UNIT.fullmatch(text)
    return (match[1], match[2] or "") if match else None
