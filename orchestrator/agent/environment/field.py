"""One fact about the host, and the honest ways of not knowing it.

Tools spell a missing value in many ways (`N/A`, `[Not Supported]`, `ERR!`, `-`, an empty tag). Each
of them becomes a state here; none of them becomes 0, and none becomes a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

VALUE = "value"
NOT_APPLICABLE = "not_applicable"
UNKNOWN = "unknown"
ERROR = "error"

IDENTITY = "identity"
CONDITION = "condition"
INFO = "info"


@dataclass(frozen=True)
class Spec:
    """What a key means: its UCUM unit ("" if none) and how much a difference matters."""

    unit: str
    severity: str
    meaning: str


@dataclass(frozen=True)
class Reading:
    """What one source said about one key. `value` is None unless `state` is "value"."""

    state: str
    value: Any
    source: str
    detail: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) == (self.state == VALUE):
            raise ValueError(f"a reading with state `{self.state}` cannot hold {self.value!r}")

    @property
    def known(self) -> bool:
        return self.state == VALUE

    def to_field(self, spec: Spec) -> Dict[str, Any]:
        return {
            "state": self.state,
            "value": self.value,
            "unit": spec.unit,
            "from": self.source,
            "severity": spec.severity,
            "detail": self.detail,
        }


Readings = Dict[str, Reading]


def known(value: Any, source: str, detail: str = "") -> Reading:
    return Reading(VALUE, value, source, detail)


def not_applicable(source: str, detail: str) -> Reading:
    return Reading(NOT_APPLICABLE, None, source, detail)


def unknown(source: str, detail: str) -> Reading:
    return Reading(UNKNOWN, None, source, detail)


def error(source: str, detail: str) -> Reading:
    return Reading(ERROR, None, source, detail)


# The tool answers that this device has no such thing.
_NOT_THERE = {"n/a", "na", "not supported", "not applicable", "unsupported", "[n/a]"}
# The tool was asked and failed.
_FAILED = {"unknown error", "err!", "error", "gpu is lost", "gpu requires reset"}
# The tool says nothing.
_SILENT = {"", "-", "--", "unknown", "insufficient permissions", "not available", "null"}


def missing(text: str, source: str) -> Optional[Reading]:
    """Read a marker for "no value"; None when `text` is not one."""
    bare = text.strip().strip("[]<>").strip().lower()
    said = f"the tool says `{text.strip()}`" if text.strip() else "the tool leaves it empty"
    if bare in _NOT_THERE:
        return not_applicable(source, said)
    if bare in _FAILED:
        return error(source, said)
    if bare in _SILENT or "deprecated" in bare:
        return unknown(source, said)
    return None


NOT_MENTIONED = "the tool does not mention it"


def words(text: Optional[str], source: str) -> Reading:
    """Read a piece of text; None means the tool did not mention it."""
    if text is None:
        return unknown(source, NOT_MENTIONED)
    return missing(text, source) or known(" ".join(text.split()), source)


def lowered(text: Optional[str], source: str) -> Reading:
    """Read a mode (`Enabled`, `Exclusive_Process`), in the one spelling used in a snapshot."""
    return converted(words(text, source), lambda mode: mode.lower().replace(" ", "_"))


_NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([^\s\d]*)")


def number(text: Optional[str], source: str, scales: Mapping[str, float]) -> Reading:
    """Read a number with its unit; `scales` maps each unit that may stand there to its factor.

    Whole results are given as int. A unit that is not expected is an error: a number whose unit is
    guessed is worse than none.
    """
    if text is None:
        return unknown(source, NOT_MENTIONED)
    gone = missing(text, source)
    if gone is not None:
        return gone
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match.group(2) not in scales:
        expected = " or ".join(f"`{unit}`" if unit else "no unit" for unit in sorted(scales))
        return error(source, f"says `{text.strip()}`; expected a number with {expected}")
    return known(whole(float(match.group(1)) * scales[match.group(2)]), source)


def whole(value: float) -> Any:
    """An int where nothing is lost by it, else rounded to a millionth (900.0000001 W is noise)."""
    return int(value) if value == int(value) else round(value, 6)


def converted(reading: Reading, change: Callable[[Any], Any]) -> Reading:
    if not reading.known:
        return reading
    return known(change(reading.value), reading.source, reading.detail)


# A source that says "this device has no such thing" knows more than one that failed.
_PREFERENCE = (VALUE, NOT_APPLICABLE, ERROR, UNKNOWN)


def first_known(*readings: Reading) -> Reading:
    """The first reading with a value; else the most telling state, with every reason given."""
    if not readings:
        raise ValueError("no reading to choose from")
    best = min(readings, key=lambda reading: _PREFERENCE.index(reading.state))
    if best.known or len(set(readings)) == 1:
        return best
    reasons = dict.fromkeys(_reason(reading) for reading in readings if reading.detail)
    return Reading(best.state, None, best.source, "; ".join(reasons))


def _reason(reading: Reading) -> str:
    if not reading.source or reading.detail.startswith(reading.source):
        return reading.detail
    return f"{reading.source}: {reading.detail}"


def merged(*sources: Mapping[str, Reading]) -> Readings:
    """Join what several sources say, key by key, the earlier source first."""
    keys: Tuple[str, ...] = tuple(dict.fromkeys(key for source in sources for key in source))
    return {key: first_known(*(s[key] for s in sources if key in s)) for key in keys}
