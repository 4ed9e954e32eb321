"""The report at the end of a run: what missed, what it was measured under, what to do next."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.agent import journal
from orchestrator.report.words import (
    STATE_STYLES,
    cut,
    harmless,
    how_it_ended,
    show_distance,
    show_fact,
    show_measured,
    show_where,
    state_words,
)
from orchestrator.spec.quantity import show_duration
from orchestrator.store.history import History, JobView
from orchestrator.store.record import RunRecord
from orchestrator.verdict.conditions import Conditions, Field
from orchestrator.verdict.decision import exit_code
from orchestrator.verdict.decision import words as words_of
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, ORDER, Item

# A pipe has no width; wrapping there would break the lines people grep for.
_PLAIN_WIDTH = 200
STATUS_STYLES: Mapping[str, str] = {
    HIT: "green",
    MISS: "bold red",
    MISSING: "bold yellow",
    NOT_COMPARABLE: "bold yellow",
    NEW: "cyan",
}
# Of the columns that wrap; the others show all they have.
_NARROWEST = 16
_LONGEST_EXPECTED = 40
_MAX_HITS = 30
_MAX_NEW = 4
_MAX_BAD_JOBS = 12

# Facts a reader wants before believing a number, in this order, when the host has them.
TELLING = (
    "driver.version",
    "cpu.model",
    "os.kernel",
    "python.version",
    "torch.version",
    "triton.version",
    "cuda.runtime",
)
TELLING_GPU = ("name", "clock_sm", "clock_sm_max", "power_limit", "throttle_reasons", "ecc_mode")


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
    for part in (_jobs(summary.history), _items(summary.items), _conditions(summary.conditions)):
        if part is not None:
            out.print(part)
    for problem in summary.problems:
        out.print(Text(f"unreadable result: {harmless(problem)}", style="yellow"))
    out.print(_banner(summary))
    for line in _next_actions(summary):
        out.print(Text(line))


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


# ---- ledger


def _items(items: Sequence[Item]) -> RenderableType | None:
    if not items:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("entry", overflow="fold", min_width=_NARROWEST)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("expected", overflow="fold", min_width=_NARROWEST)
    table.add_column("distance", justify="right", no_wrap=True)
    for item in _shown(items):
        status = Text(item.status.replace("_", " "), style=STATUS_STYLES[item.status])
        expected = Text(cut(harmless(item.expected), _LONGEST_EXPECTED))
        table.add_row(status, _named(item), _measured(item), expected, show_distance(item))
        for line in _notes(item):
            table.add_row("", Text(f"  {harmless(line)}", style="dim"))
    hidden = len(items) - len(_shown(items))
    parts: list[RenderableType] = [table]
    if hidden:
        parts.append(Text(f"and {hidden} more in verdict.json", style="dim"))
    return Group(*parts)


def _shown(items: Sequence[Item]) -> list[Item]:
    """All that went wrong, and as many of the rest as fit a screen."""
    limits = {HIT: _MAX_HITS, NEW: _MAX_NEW}
    kept: list[Item] = []
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
        if counts[item.status] <= limits.get(item.status, len(items)):
            kept.append(item)
    return kept


def _named(item: Item) -> Text:
    if not item.is_predicted:
        place = f"{item.step}[{show_where(item.where)}]" if item.where else item.step
        return Text.assemble(item.metric, ("  " + place, "dim"))
    style = "" if item.severity == "blocker" else "italic"
    return Text(item.id if item.severity == "blocker" else f"{item.id} (info)", style=style)


def _measured(item: Item) -> Text:
    return Text(cut(show_measured(item)) if isinstance(item.measured, str) else show_measured(item))


def _notes(item: Item) -> Iterable[str]:
    """What stands below an item; texts that differ where the table has cut them, in full."""
    is_miss = item.status == MISS
    if is_miss and isinstance(item.measured, str) and show_measured(item) != _measured(item).plain:
        yield f"measured: {item.measured}"
        yield f"expected: {item.expected}"
    if item.reason:
        yield item.reason
    elif is_miss and item.decides:
        yield f"decides: {item.decides}"


# ---- conditions


def _conditions(conditions: Conditions) -> RenderableType | None:
    lines = [*_facts(conditions), *_drift(conditions)]
    if not lines:
        return Text("conditions: no snapshot of the host came home", style="bold yellow")
    return Group(*lines)


def _facts(conditions: Conditions) -> Iterable[Text]:
    fields = conditions.before
    told = [_fact(name, fields[name]) for name in TELLING if _is_known(fields.get(name))]
    if conditions.caches:
        told.append(f"caches {conditions.caches}")
    if told:
        yield Text("conditions: " + ", ".join(told), style="dim")
    for index in range(64):
        parts = [
            _fact(name, fields[f"gpu.{index}.{name}"])
            for name in TELLING_GPU
            if _is_known(fields.get(f"gpu.{index}.{name}"))
        ]
        if not parts:
            return
        yield Text(f"  GPU {index}: " + ", ".join(parts), style="dim")


def _is_known(field: Field | None) -> bool:
    return field is not None and field.state == "value"


def _fact(name: str, field: Field) -> str:
    label = name.removesuffix(".version").removesuffix(".model").removesuffix(".name")
    bare = label in ("name", "cpu")
    return harmless(f"{'' if bare else label + ' '}{show_fact(field)}")


def _drift(conditions: Conditions) -> Iterable[Text]:
    """What was identity and is another now: such a run compares with nothing."""
    for name, before in conditions.before.items():
        after = conditions.after.get(name)
        if before.severity != "identity" or after is None:
            continue
        if (before.state, before.value) != (after.state, after.value):
            yield Text(
                f"changed during the run: {name}: {show_fact(before)} -> {show_fact(after)}",
                "bold yellow",
            )


# ---- verdict


def _banner(summary: Summary) -> Text:
    code = exit_code(summary.history, summary.items)
    jobs = ", ".join(f"{n} {state_words(s)}" for s, n in sorted(summary.history.counts.items()))
    ledger = _ledger_words(summary.items)
    style = {0: "bold green", 3: "bold yellow", 6: "bold yellow"}.get(code, "bold red")
    if code == 0 and not any(item.is_predicted for item in summary.items):
        style = "bold"
    verdict = words_of(code, summary.items)
    return Text(f"\n{summary.record.run_id}: {verdict}: {jobs}{ledger}", style=style)


def _ledger_words(items: Sequence[Item]) -> str:
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
    words = [f"{counts[s]} {s.replace('_', ' ')}" for s in ORDER if s in counts]
    subject = "ledger: " if any(item.is_predicted for item in items) else ""
    return f"; {subject}{', '.join(words)}" if words else ""


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
        "exit_code": exit_code(summary.history, summary.items),
        "counts": summary.history.counts,
        "items": [item.as_json() for item in summary.items],
        "problems": list(summary.problems),
        "folder": str(summary.folder),
    }
