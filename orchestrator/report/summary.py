"""The report at the end of a run: what missed, what it was measured under, what to do next."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from orchestrator.agent import journal
from orchestrator.report import conditions, ledger, watched
from orchestrator.report.words import STATE_STYLES, harmless, how_it_ended, state_words
from orchestrator.spec.quantity import show_duration
from orchestrator.store.history import History, JobView
from orchestrator.store.record import RunRecord
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.decision import exit_code
from orchestrator.verdict.decision import words as words_of
from orchestrator.verdict.item import Item

# A pipe has no width; wrapping there would break the lines people grep for.
_PLAIN_WIDTH = 200
_MAX_BAD_JOBS = 12


@dataclass(frozen=True)
class Summary:
    """Everything the report shows."""

    record: RunRecord
    folder: Path
    history: History
    items: Sequence[Item]
    conditions: Conditions
    problems: Sequence[str] = ()


def show(summary: Summary, console: Console | None = None) -> None:
    """Write the report to the terminal, or as plain text where there is none."""
    out = console or Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    for part in (
        _jobs(summary.history),
        ledger.table(summary.items),
        conditions.shown(summary.conditions),
        _watched(summary.history),
    ):
        if part is not None:
            out.print(part)
    for problem in summary.problems:
        out.print(Text(f"unreadable result: {harmless(problem)}", style="yellow"))
    out.print(_banner(summary))
    for line in _next_actions(summary):
        out.print(Text(line))


def _watched(history: History) -> Text | None:
    line = watched.of_run(history.jobs.values())
    return Text(f"  {line}", style="dim") if line else None


# ---- jobs


def _jobs(history: History) -> RenderableType | None:
    bad = [job for job in history.jobs.values() if job.state != journal.PASSED]
    if not bad:
        return None
    parts: list[RenderableType] = []
    for job in bad[:_MAX_BAD_JOBS]:
        style = STATE_STYLES.get(job.state, "")
        parts.append(Text.assemble((job.id, "bold"), "  ", (how_it_ended(job), style)))
        parts += [Text(f"    {harmless(line)}", style="dim") for line in _telling_lines(job)]
    if len(bad) > _MAX_BAD_JOBS:
        parts.append(Text(f"and {len(bad) - _MAX_BAD_JOBS} more that did not pass", style="dim"))
    return Group(*parts)


def _telling_lines(job: JobView) -> Sequence[str]:
    return () if job.state == journal.SKIPPED else job.tail[-4:]


# ---- verdict


def _banner(summary: Summary) -> Text:
    code = exit_code(summary.history, summary.items, summary.problems)
    jobs = ", ".join(f"{n} {state_words(s)}" for s, n in sorted(summary.history.counts.items()))
    style = {0: "bold green", 3: "bold yellow", 6: "bold yellow"}.get(code, "bold red")
    if code == 0 and not any(item.is_predicted for item in summary.items):
        style = "bold"
    verdict = words_of(code, summary.items)
    tally = ledger.tally(summary.items)
    return Text(f"\n{summary.record.run_id}: {verdict}: {jobs}{tally}", style=style)


def _next_actions(summary: Summary) -> Iterable[str]:
    record = summary.record
    yield f"  {_shown_path(summary.folder)}"
    bad = next((j for j in summary.history.jobs.values() if j.state in _WITH_LOG), None)
    if bad is not None:
        yield f"  read its log: orch logs {record.run_id} '{bad.id}'"
    timings = record.timings
    if timings.first_step_s is not None and timings.home_s is not None:
        parts = [f"first step after {show_duration(timings.first_step_s)}"]
        if timings.ended_s is not None:
            back = timings.home_s - timings.ended_s
            parts.append(f"home {show_duration(back)} after the last one")
        yield f"  latency: {', '.join(parts)}"


_WITH_LOG = (journal.FAILED, journal.TIMED_OUT)


def _shown_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def as_json(summary: Summary) -> Mapping[str, Any]:
    """The report for programs."""
    return {
        "run_id": summary.record.run_id,
        "exit_code": exit_code(summary.history, summary.items, summary.problems),
        "counts": summary.history.counts,
        "items": [item.as_json() for item in summary.items],
        "problems": list(summary.problems),
        "folder": str(summary.folder),
    }
