"""Units that convert into each other without a doubt; all others must be spelt the same."""

from __future__ import annotations

# UCUM codes, and the spellings people use beside them: (dimension, factor to its base unit).
_UNITS: dict[str, tuple[str, float]] = {
    "s": ("time", 1.0),
    "ms": ("time", 1e-3),
    "us": ("time", 1e-6),
    "\N{MICRO SIGN}s": ("time", 1e-6),
    "\N{GREEK SMALL LETTER MU}s": ("time", 1e-6),
    "ns": ("time", 1e-9),
    "min": ("time", 60.0),
    "h": ("time", 3600.0),
    "By": ("bytes", 1.0),
    "B": ("bytes", 1.0),
    "kBy": ("bytes", 1e3),
    "kB": ("bytes", 1e3),
    "MBy": ("bytes", 1e6),
    "MB": ("bytes", 1e6),
    "GBy": ("bytes", 1e9),
    "GB": ("bytes", 1e9),
    "KiBy": ("bytes", 2.0**10),
    "MiBy": ("bytes", 2.0**20),
    "GiBy": ("bytes", 2.0**30),
    "GB/s": ("bandwidth", 1e9),
    "GBy/s": ("bandwidth", 1e9),
    "TB/s": ("bandwidth", 1e12),
    "TBy/s": ("bandwidth", 1e12),
    "": ("one", 1.0),
    "1": ("one", 1.0),
    "%": ("one", 1e-2),
}


class UnitMismatch(ValueError):
    """Two units that cannot be compared."""


def is_dimensionless(unit: str) -> bool:
    return _UNITS.get(unit, ("", 0.0))[0] == "one"


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
    return value * have[1] / want[1]
