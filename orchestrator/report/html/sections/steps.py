"""Every job: how it ended, and the end of its log where it did not pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView
from orchestrator.report.watched import sentence
from orchestrator.report.words import harmless
from orchestrator.store.history import JobView

MAX_LOG_LINES = 60
MAX_LINE = 400
MAX_JOBS = 500


@dataclass(frozen=True)
class Row:
    """A job and what is shown of its log."""

    job: JobView
    log: str
    watched: Sequence[str]


def section(view: RunView) -> Section | None:
    jobs = list(view.history.jobs.values())
    if not jobs:
        return None
    ordered = sorted(jobs, key=lambda job: job.state == "passed")
    rows = [
        Row(job, _log(view, job), [sentence(seen) for seen in job.watched])
        for job in ordered[:MAX_JOBS]
    ]
    body = render(
        "steps.html.j2",
        rows=rows,
        notes=view.history.notes,
        hidden=max(len(jobs) - MAX_JOBS, 0),
        run_id=view.record.run_id,
    )
    return Section("steps", "Steps", body)


def _log(view: RunView, job: JobView) -> str:
    if job.state in ("passed", "skipped", "not_started"):
        return ""
    lines = view.log_tail(job.folder).splitlines()[-MAX_LOG_LINES:]
    return "\n".join(harmless(line)[:MAX_LINE] for line in lines)
