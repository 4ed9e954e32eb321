"""Why a job must be skipped: a step it needs did not pass everywhere."""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

from orchestrator.agent import journal

_WORDS = {
    journal.FAILED: "failed",
    journal.TIMED_OUT: "timed out",
    journal.SKIPPED: "was skipped",
    journal.CANCELLED: "was cancelled",
}


def blocker(needed: Iterable[str], states_of: Callable[[str], Sequence[str]]) -> str:
    """The first needed step that stands in the way, and how it ended; empty when none does.

    Args:
        states_of: how the jobs of a step ended; no state at all is not a pass.
    """
    for step in needed:
        states = states_of(step)
        bad = [state for state in states if state != journal.PASSED]
        if bad or not states:
            return f"needs `{step}`, which {_WORDS.get(bad[0] if bad else '', 'did not run')}"
    return ""
