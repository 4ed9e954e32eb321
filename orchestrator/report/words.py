"""Words and marks that every view of a run shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.agent import journal
from orchestrator.spec.quantity import show_duration, show_size
from orchestrator.store.history import RUNNING, WAITING, JobView
from orchestrator.verdict.conditions import Field
from orchestrator.verdict.item import HIT, MISS, Item

# Below it every whole number has its own float.
_EXACT = 2.0**53
_FAR = 1e6

STATE_STYLES: Mapping[str, str] = {
    journal.PASSED: "green",
    journal.FAILED: "bold red",
    journal.TIMED_OUT: "bold red",
    journal.SKIPPED: "yellow",
    journal.CANCELLED: "yellow",
    journal.HOST_LOST: "bold red",
    journal.NOT_STARTED: "yellow",
    RUNNING: "bold cyan",
    WAITING: "dim",
}

# Escape sequences and control characters of a program's output must not reach the terminal again.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """A program's text without anything a terminal would act on."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", text))


def state_words(state: str) -> str:
    return state.replace("_", " ")


def how_it_ended(job: JobView) -> str:
    """`passed in 3.2 s`, `timed out: ran longer than 5 s`."""
    words = state_words(job.state)
    if job.state == journal.PASSED and job.duration_s is not None:
        words += f" in {show_duration(job.duration_s)}"
    if job.reason:
        words += f": {harmless(job.reason.splitlines()[0])}"
    if job.leftover:
        words += f" (left behind and killed: {', '.join(map(harmless, job.leftover))})"
    return words


def show_value(value: Any, unit: str = "") -> str:
    """A measured value for people: four significant digits or a whole number, then its unit."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = _whole(value) or f"{value:.4g}"
    else:
        text = harmless(str(value))
    return text if unit in ("", "1") else f"{text} {unit}"


def show_fact(field: Field) -> str:
    """A fact of the host on one line: its value with its unit, or why there is none."""
    if field.state != "value":
        return state_words(field.state)
    if field.unit == "By" and type(field.value) is int:
        return show_size(field.value)
    if isinstance(field.value, list):
        return show_value(", ".join(map(str, field.value)) or "none", field.unit)
    if isinstance(field.value, dict):
        pairs = (f"{key}: {_inner(value)}" for key, value in field.value.items())
        return show_value(", ".join(pairs) or "none", field.unit)
    return show_value(field.value, field.unit)


def _inner(value: Any) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{key}: {_inner(item)}' for key, item in value.items())})"
    return show_value(value)


def _whole(value: float) -> str:
    """All digits of a whole number that a float holds exactly; else nothing."""
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else ""


def show_measured(item: Item) -> str:
    """What an item measured; beside an exact expectation with all its digits."""
    if item.measured is None:
        return "-"
    if isinstance(item.measured, float) and item.expected.removeprefix("ratio ").startswith("="):
        return show_value(_whole(item.measured) or repr(item.measured), item.unit)
    return show_value(item.measured, item.unit)


def show_distance(item: Item) -> str:
    """In tolerance widths, with as many digits as it takes that a miss is beyond ±1.

    With one open side, all of the inside is a hit as good as any other.
    """
    distance = item.distance
    if distance is None:
        return ""
    if item.status == HIT and item.bounds is not None and None in item.bounds:
        return "inside"
    if abs(distance) >= _FAR:
        return f"{distance:+.2e}"
    for digits in range(2, 10):
        text = f"{distance:+.{digits}f}"
        if item.status != MISS or abs(float(text)) > 1:
            return text
    return "just above" if distance > 0 else "just below"


def cut(text: str, longest: int = 24) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def show_where(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={value}" for axis, value in where.items())
