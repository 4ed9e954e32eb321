"""Durations (`90s`, `1h30m`), sizes (`200MB`) and fractions (`5%`) as people write them."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_LONGEST_S = 365 * 86400.0

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

_LARGEST_TB = 9_000_000

_FRACTION = re.compile(r"(\d+(?:\.\d+)?)\s*%")


_GREATEST = 1e300


def wrong(what: str, expected: str, fix: str = "") -> PydanticCustomError:
    """A validation error that carries the three parts every message of ours has."""
    return PydanticCustomError("orch", "{what}", {"what": what, "expected": expected, "fix": fix})


def parse_duration(value: Any) -> float:
    """Seconds of a duration such as `90s`, `10m` or `1h30m`."""
    expected = "a duration such as `90s`, `10m` or `1h30m`"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(f"`{value}` is not a duration", expected)
    text = str(value).strip()
    if not _DURATION.fullmatch(text):
        number = re.fullmatch(r"\d+(\.\d+)?", text)
        raise wrong(f"`{value}` is not a duration", expected, f"write `{text}s`" if number else "")
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(text))
    if seconds <= 0:
        raise wrong(f"`{value}` is no time at all", "a duration above zero")
    if seconds > _LONGEST_S:
        raise wrong(f"`{value}` is longer than anybody waits", "at most 365d")
    return seconds


def parse_size(value: Any) -> int:
    """Bytes of a size such as `200MB` or `2GiB`."""
    match = _SIZE.fullmatch(str(value).strip())
    if isinstance(value, bool) or match is None:
        raise wrong(f"`{value}` is not a size", "a size such as `200MB` or `2GiB`")
    count = float(match[1]) * _BYTES[match[2]]
    if count > _LARGEST_TB * _BYTES["TB"]:
        raise wrong(f"`{value}` is more than any disk holds", f"at most {_LARGEST_TB}TB")
    return int(count)


def parse_fraction(value: Any) -> float:
    """A relative tolerance: `5%` and `0.05` are the same."""
    expected = "a fraction such as `5%` or `0.05`"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        fraction = float(value)
    else:
        match = _FRACTION.fullmatch(str(value).strip())
        if match is None:
            raise wrong(f"`{value}` is not a fraction", expected)
        fraction = float(match[1]) / 100
    if not math.isfinite(fraction):
        raise wrong(f"`{fraction}` is not a finite number", expected)
    return fraction


def check_number(value: float) -> float:
    """A number whose sums with others are still numbers."""
    if not abs(value) <= _GREATEST:
        raise wrong(
            f"`{value:g}` cannot be compared with what is measured",
            f"a number from -{_GREATEST:g} to {_GREATEST:g}",
        )
    return value


def show_duration(seconds: float) -> str:
    """The shortest text a person reads as this time: `45 s`, `12 m 30 s`, `2 h 05 m`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} m"
    if minutes:
        return f"{minutes} m {secs:02d} s"
    return f"{secs} s"


def show_size(count: float) -> str:
    """A size with three significant digits and a decimal unit, as `parse_size` reads it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$",
            "description": "A duration such as 90s, 10m or 1h30m.",
            "examples": ["90s", "10m"],
        }
    ),
]

Number = Annotated[float, AfterValidator(check_number)]

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d+(\.\d+)?\s*(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
            "description": "A size such as 200MB or 2GiB.",
            "examples": ["200MB"],
        }
    ),
]

Fraction = Annotated[
    float,
    BeforeValidator(parse_fraction),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^\d+(\.\d+)?\s*%$"},
            ],
            "description": "A relative tolerance: 5% or 0.05.",
            "examples": ["5%"],
        }
    ),
]
