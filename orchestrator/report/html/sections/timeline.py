"""When each job ran, and how much of its deadline it used."""

from __future__ import annotations

from orchestrator.report.html.bars import Bar, bar_chart
from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView
from orchestrator.report.words import how_it_ended
from orchestrator.spec.quantity import show_duration
from orchestrator.store.history import JobView

MAX_BARS = 80
WIDE = 820


def section(view: RunView) -> Section | None:
    ran = [job for job in view.history.jobs.values() if job.started_s is not None]
    if not ran:
        return None
    bars = [_bar(job) for job in ran[:MAX_BARS]]
    timings = view.record.timings
    body = render(
        "timeline.html.j2",
        chart=bar_chart(bars, "s", "when each job ran", width=WIDE),
        hidden=max(len(ran) - MAX_BARS, 0),
        timings=timings,
        total=sum(job.duration_s or 0 for job in ran),
    )
    return Section("timeline", "Timeline", body, _next(ran))


def _bar(job: JobView) -> Bar:
    label = f"{job.id}: {how_it_ended(job)} (deadline {show_duration(job.deadline_s)})"
    return Bar(job.id, job.started_s or 0.0, job.duration_s or 0.0, f"state-{job.state}", label)


def _next(ran: list[JobView]) -> str:
    close = [
        job for job in ran
        if job.state == "passed" and job.deadline_s and (job.duration_s or 0) > 0.8 * job.deadline_s
    ]  # fmt: skip
    if close:
        return f"{close[0].id} used more than four fifths of its deadline: raise it"
    return ""
