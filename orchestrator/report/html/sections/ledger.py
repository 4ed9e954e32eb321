"""Predictions against measurements, worst first."""

from __future__ import annotations

from orchestrator.report.html.bars import bullet
from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView
from orchestrator.verdict.item import MISS, MISSING, NEW, NOT_COMPARABLE, ORDER

MAX_NEW = 200


def section(view: RunView) -> Section | None:
    predicted = [item for item in view.items if item.status != NEW]
    new = [item for item in view.items if item.status == NEW]
    if not predicted and not new:
        return None
    body = render(
        "ledger.html.j2",
        rows=[(item, bullet(item.distance)) for item in predicted],
        new=new[:MAX_NEW],
        hidden=max(len(new) - MAX_NEW, 0),
        sealed=view.record.ledger,
        statuses=[s for s in ORDER if any(i.status == s for i in predicted)],
        problems=view.problems,
    )
    return Section("ledger", "Ledger", body, _next(view))


def _next(view: RunView) -> str:
    statuses = {item.status for item in view.items}
    if MISSING in statuses:
        return (
            "a missing entry was predicted and not measured: mend the step, or the entry's `where`"
        )
    if NOT_COMPARABLE in statuses:
        return "an entry is not comparable under these conditions: its reason names which one"
    if NEW in statuses and MISS not in statuses:
        return "what is new was measured without a prediction: predict it in the next ledger"
    return ""
