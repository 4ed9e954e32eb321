"""What a run comes to: one exit code."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.agent import journal
from orchestrator.store.history import History
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, Item


def exit_code(history: History, items: Sequence[Item], unreadable: Sequence[str]) -> int:
    """The exit code of `orch run`.

    6 cancelled; 1 a step did not pass or a blocker missed; 3 a blocker was not measured or is not
    comparable, a step recorded without a prediction that it could not measure, or something that
    was recorded is `unreadable`, so nobody knows what it said; 0 otherwise.
    """
    states = set(history.counts)
    if journal.CANCELLED in states:
        return 6
    blockers = [item.status for item in items if item.severity == "blocker"]
    if MISS in blockers or states & {journal.FAILED, journal.TIMED_OUT}:
        return 1
    unmeasured = {MISSING, NOT_COMPARABLE} & set(blockers)
    unfinished = states - {journal.PASSED}
    return 3 if unmeasured or unfinished or unreadable or not states else 0


def words(code: int, items: Sequence[Item]) -> str:
    """What the exit code stands for; a run that predicted nothing has nothing as predicted."""
    if code == 0:
        return _words_of_success(items)
    if code == 1 and not any(_is_blocking_miss(item) for item in items):
        return "a step did not pass"
    return {1: "not as predicted", 3: "not fully measured", 6: "cancelled"}.get(code, "failed")


def _words_of_success(items: Sequence[Item]) -> str:
    if not any(item.is_predicted for item in items):
        return "all steps passed; nothing was predicted"
    if all(item.status in (HIT, NEW) for item in items):
        return "all as predicted"
    return "no blocker missed"


def _is_blocking_miss(item: Item) -> bool:
    return item.status == MISS and item.severity == "blocker"
