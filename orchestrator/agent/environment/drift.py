"""What changed between two snapshots of one host."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

# Worst first.
_SEVERITIES = ("identity", "condition", "info")
# The clock moves by itself; that is no drift.
_MOVING = ("time.utc", "time.uptime", "snapshot.raw")

Change = Dict[str, Any]


def drift(before: Mapping[str, Any], after: Mapping[str, Any]) -> List[Change]:
    """The fields that differ, the gravest first: `{key, severity, before, after, delta}`.

    `before` and `after` are the whole fields, None where a snapshot does not have the key; `delta`
    is the difference of two numbers, None for everything else. A field that was a value and is
    none any more is a change too.
    """
    first: Mapping[str, Mapping[str, Any]] = before["fields"]
    second: Mapping[str, Mapping[str, Any]] = after["fields"]
    changes = [
        _change(key, first.get(key), second.get(key))
        for key in sorted({*first, *second})
        if key not in _MOVING and _differ(first.get(key), second.get(key))
    ]
    return sorted(changes, key=lambda change: _SEVERITIES.index(change["severity"]))


def _differ(old: Optional[Mapping[str, Any]], new: Optional[Mapping[str, Any]]) -> bool:
    if old is None or new is None:
        return old is not new
    return bool((old["state"], old["value"]) != (new["state"], new["value"]))


def _change(key: str, old: Optional[Mapping[str, Any]], new: Optional[Mapping[str, Any]]) -> Change:
    told = new if new is not None else old
    assert told is not None
    return {
        "key": key,
        "severity": told["severity"],
        "before": old,
        "after": new,
        "delta": _delta(old, new),
    }


def _delta(old: Optional[Mapping[str, Any]], new: Optional[Mapping[str, Any]]) -> Optional[float]:
    if old is None or new is None:
        return None
    numbers = [value for value in (old["value"], new["value"]) if _is_number(value)]
    return numbers[1] - numbers[0] if len(numbers) == 2 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
