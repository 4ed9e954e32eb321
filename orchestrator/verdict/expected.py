"""An expectation as numbers and as words: its bounds, the distance from it, how people write it."""

from __future__ import annotations

import math
import sys
from typing import Any

from orchestrator.spec.ledger import Entry, Expect

# What decimal fractions and conversions of units lose in binary.
_ROUNDING = 1e-9
# Below it every whole number has its own float.
_EXACT = 2.0**53
_BEYOND = math.nextafter(1.0, 2.0)


def bounds(expect: Expect) -> tuple[float | None, float | None] | None:
    """The lowest and the highest hit; None where no number is expected within others."""
    if expect.kind == "interval":
        assert expect.interval is not None
        low, high = expect.interval
        return low, high
    if expect.kind == "hash" or not isinstance(expect.value, (int, float)):
        return None
    if expect.kind == "exact":
        return None if isinstance(expect.value, bool) else (expect.value, expect.value)
    return expect.value - expect.width, expect.value + expect.width


def distance(expect: Expect, value: float) -> tuple[float, bool]:
    """How far a value lies from the centre, in tolerance widths, and whether that is a hit.

    With one open side the width is the size of the bound itself (or 1 at a bound of 0), and all of
    the inside is the centre. A value on a bound is a hit: rounding must not decide.
    """
    if expect.kind == "value":
        assert isinstance(expect.value, (int, float))
        apart = (value - expect.value) / expect.width
        return _on_its_side(apart, abs(apart) <= 1 + _ROUNDING)
    assert expect.interval is not None
    low, high = expect.interval
    inside = (low is None or value >= low or math.isclose(value, low, rel_tol=_ROUNDING)) and (
        high is None or value <= high or math.isclose(value, high, rel_tol=_ROUNDING)
    )
    if low is not None and high is not None:
        # Half of each first: the sum of two floats may be beyond all of them.
        apart = (value - (low / 2 + high / 2)) / (high / 2 - low / 2)
        return _on_its_side(apart, inside)
    bound = low if low is not None else high
    assert bound is not None, "one side is closed"
    excess = (value - bound) / (abs(bound) or 1.0)
    return (0.0, True) if inside else _on_its_side(excess + math.copysign(1.0, excess), False)


def _on_its_side(apart: float, inside: bool) -> tuple[float, bool]:
    """A finite distance that rounding has not put on the other side of ±1."""
    least, most = (0.0, 1.0) if inside else (_BEYOND, sys.float_info.max)
    return math.copysign(min(max(abs(apart), least), most), apart), inside


def words(entry: Entry) -> str:
    """What was expected, as people write it."""
    expect = entry.expect
    unit = "" if entry.unit in ("", "1") or expect.ratio_to else f" {entry.unit}"
    prefix = "ratio " if expect.ratio_to else ""
    if expect.kind == "hash":
        return f"{expect.hash}"
    if expect.kind == "exact":
        return f"{prefix}= {expect.value}{unit}"
    if expect.kind == "interval":
        assert expect.interval is not None
        low, high = expect.interval
        if low is None:
            return f"{prefix}≤ {_number(high)}{unit}"
        if high is None:
            return f"{prefix}≥ {_number(low)}{unit}"
        return f"{prefix}{_number(low)} … {_number(high)}{unit}"
    parts = [f"±{expect.rel * 100:g} %"] if expect.rel else []
    parts += [f"±{_number(expect.abs)}"] if expect.abs else []
    return f"{prefix}{_number(expect.value)} {' or '.join(parts)}{unit}"


def _number(value: Any) -> str:
    """A bound as it was written: whole numbers with all their digits."""
    whole = value == int(value) and abs(value) < _EXACT
    return str(int(value)) if whole else f"{value:g}"
