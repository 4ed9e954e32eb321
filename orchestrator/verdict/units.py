"""Units that convert into each other without a doubt; all others must be spelt the same."""

from __future__ import annotations

import math
from fractions import Fraction

# UCUM codes, and the spellings people use beside them: (dimension, factor to its base unit).
_UNITS: dict[str, tuple[str, Fraction]] = {
    "s": ("time", Fraction(1)),
    "ms": ("time", Fraction("1e-3")),
    "us": ("time", Fraction("1e-6")),
    "\N{MICRO SIGN}s": ("time", Fraction("1e-6")),
    "\N{GREEK SMALL LETTER MU}s": ("time", Fraction("1e-6")),
    "ns": ("time", Fraction("1e-9")),
    "min": ("time", Fraction(60)),
    "h": ("time", Fraction(3600)),
    "By": ("bytes", Fraction(1)),
    "B": ("bytes", Fraction(1)),
    "kBy": ("bytes", Fraction("1e3")),
    "kB": ("bytes", Fraction("1e3")),
    "MBy": ("bytes", Fraction("1e6")),
    "MB": ("bytes", Fraction("1e6")),
    "GBy": ("bytes", Fraction("1e9")),
    "GB": ("bytes", Fraction("1e9")),
    "KiBy": ("bytes", Fraction(2**10)),
    "MiBy": ("bytes", Fraction(2**20)),
    "GiBy": ("bytes", Fraction(2**30)),
    "GB/s": ("bandwidth", Fraction("1e9")),
    "GBy/s": ("bandwidth", Fraction("1e9")),
    "TB/s": ("bandwidth", Fraction("1e12")),
    "TBy/s": ("bandwidth", Fraction("1e12")),
    "": ("one", Fraction(1)),
    "1": ("one", Fraction(1)),
    "%": ("one", Fraction("1e-2")),
}


class UnitMismatch(ValueError):
    """Two units that cannot be compared."""


def is_dimensionless(unit: str) -> bool:
    return _UNITS.get(unit, ("", Fraction(0)))[0] == "one"


def convert(value: float, unit: str, wanted: str) -> float:
    """A value in another unit.

    Raises:
        UnitMismatch: the units measure different things, or one is not known and they differ.
    """
    if unit == wanted:
        return value
    have, want = _UNITS.get(unit), _UNITS.get(wanted)
    if have is None or want is None or have[0] != want[0]:
        raise UnitMismatch(f"measured in `{unit or '1'}`, expected in `{wanted or '1'}`")
    if not math.isfinite(value):
        return value
    try:
        # Exactly, and rounded once: 2 ms are 2000 us, and not a little more.
        return float(Fraction(value) * have[1] / want[1])
    except OverflowError:
        return math.copysign(math.inf, value)
