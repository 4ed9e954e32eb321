"""The verdict, in one look: what it comes to, for which question, code and host."""

from __future__ import annotations

from orchestrator.report.html.section import Section, render
from orchestrator.report.verdict import verdict_of
from orchestrator.report.view import RunView
from orchestrator.verdict.item import ORDER


def section(view: RunView) -> Section:
    verdict = verdict_of(view)
    statuses = [item.status for item in view.items]
    counts = [(s, statuses.count(s)) for s in ORDER if s in statuses]
    body = render(
        "banner.html.j2",
        verdict=verdict,
        view=view,
        record=view.record,
        counts=counts,
        states=sorted(view.history.counts.items()),
        gpu=_gpu(view),
    )
    return Section("verdict", "Verdict", body, verdict.next_action)


def _gpu(view: RunView) -> str:
    fields = view.conditions.before
    names = [
        fields[n].value for n in sorted(fields) if n.startswith("gpu.") and n.endswith(".name")
    ]
    found = [str(name) for name in names if name]
    if not found:
        return "no GPU"
    return f"{len(found)} x {found[0]}" if len(found) > 1 else found[0]
