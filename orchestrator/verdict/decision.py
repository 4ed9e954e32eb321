"""What a run comes to: one exit code."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.agent import journal
from orchestrator.store.history import History
from orchestrator.verdict import reconcile
from orchestrator.verdict.reconcile import Item


def exit_code(history: History, items: Sequence[Item]) -> int:
    """The exit code of `orch run`.

    6 cancelled; 1 a step did not pass or a blocker missed; 3 a blocker was not measured or is not
    comparable; 0 otherwise.
    """
    states = set(history.counts)
    if journal.CANCELLED in states:
        return 6
    blockers = [item.status for item in items if item.severity == "blocker"]
    if reconcile.MISS in blockers or states & {journal.FAILED, journal.TIMED_OUT}:
        return 1
    unmeasured = {reconcile.MISSING, reconcile.NOT_COMPARABLE} & set(blockers)
    unfinished = states - {journal.PASSED}
    return 3 if unmeasured or unfinished or not states else 0
