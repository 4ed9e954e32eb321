"""Words and marks that every view of a run shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.agent import journal
from orchestrator.spec.quantity import show_duration
from orchestrator.store.history import RUNNING, WAITING, JobView

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
    """A measured value for people: four significant digits, then its unit."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = f"{value:.4g}"
    else:
        text = harmless(str(value))
    return text if unit in ("", "1") else f"{text} {unit}"


def show_where(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={value}" for axis, value in where.items())
