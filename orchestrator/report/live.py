"""A run on a terminal: a table that lives while the run does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.agent import journal
from orchestrator.report.words import STATE_STYLES, harmless, state_words
from orchestrator.spec.quantity import show_duration, show_size
from orchestrator.store.history import RUNNING, WAITING, History, JobView

# Rows beyond the screen would make the table jump; the middle of a long run is folded.
_MAX_ROWS = 24
# More than is on its way before a host takes anything. Until it does, a carrier may be asking for
# a password, and a table that is drawn anew would wipe the question away.
_BUFFERED_BYTES = 8 << 20


class LiveTeller:
    """Steps with state, elapsed of deadline and last log line; above it what the link does."""

    def __init__(self) -> None:
        self._console = Console()
        self._history = History()
        self._begun: dict[str, float] = {}
        self._tails: dict[str, str] = {}
        self._status = ""
        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=8,
        )

    def stage(self, name: str, text: str) -> None:
        if name == "connect":
            self._live.start()
        self._status = text
        self._live.console.print(Text(text, style="dim"))

    def uploading(self, done_bytes: int, total_bytes: int) -> None:
        if done_bytes > _BUFFERED_BYTES:
            self._live.start()
        self._status = f"sending files: {show_size(done_bytes)} of {show_size(total_bytes)}"

    def event(self, event: Mapping[str, Any], history: History) -> None:
        self._live.start()
        self._history = history
        if event["event"] == journal.STEP_STARTED:
            self._begun[event["id"]] = time.monotonic()
            self._status = ""
        elif event["event"] == journal.NOTE:
            self._live.console.print(Text(f"{event['level']}: {harmless(event['text'])}", "yellow"))
        elif event["event"] == journal.RUN_ENDED:
            self._status = "the run has ended on the host; its bundle is on the way"

    def tail(self, job: str, line: str) -> None:
        self._tails[job] = harmless(line)

    def receiving(self, done_bytes: int) -> None:
        self._status = f"receiving the bundle: {show_size(done_bytes)}"

    def link_lost(self, reason: str, pause_s: float) -> None:
        self._status = f"the link broke ({harmless(reason)}); the run goes on; trying again"

    def link_back(self) -> None:
        self._status = "the link holds again"

    def note(self, text: str) -> None:
        self._live.console.print(Text(harmless(text)))

    def tick(self) -> None:
        """The table refreshes by itself."""

    def close(self) -> None:
        """Leave the last table on the screen: it is the list of what ran."""
        self._status = ""
        self._live.stop()

    # -- drawing

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = []
        if self._history.jobs:
            parts.append(self._table())
        if self._status:
            parts.append(Text(self._status, style="cyan"))
        return Group(*parts)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("step", no_wrap=True, max_width=48)
        table.add_column("state", no_wrap=True)
        table.add_column("elapsed", justify="right", no_wrap=True)
        table.add_column("", width=12)
        table.add_column("last line", no_wrap=True, overflow="ellipsis", style="dim")
        shown, hidden = _window(list(self._history.jobs.values()))
        for job in shown:
            table.add_row(*self._row(job))
        if hidden:
            table.add_row(Text(f"and {hidden} more", style="dim"))
        return table

    def _row(self, job: JobView) -> list[RenderableType]:
        elapsed, bar = self._elapsed(job)
        line = self._tails.get(job.id, "") if job.state == RUNNING else _last(job)
        state = Text(state_words(job.state), style=STATE_STYLES.get(job.state, ""))
        return [Text(job.id), state, elapsed, bar, Text(line)]

    def _elapsed(self, job: JobView) -> tuple[str, RenderableType]:
        if job.state == RUNNING:
            seconds = time.monotonic() - self._begun.get(job.id, time.monotonic())
            text = f"{show_duration(seconds)} / {show_duration(job.deadline_s)}"
            return text, ProgressBar(total=job.deadline_s, completed=seconds, width=12)
        if job.state == WAITING or job.duration_s is None:
            return "", ""
        return show_duration(job.duration_s), ""


def _window(jobs: list[JobView]) -> tuple[list[JobView], int]:
    """The rows around what is happening now."""
    if len(jobs) <= _MAX_ROWS:
        return jobs, 0
    current = next((n for n, job in enumerate(jobs) if not job.ended), len(jobs) - 1)
    start = max(0, min(current - _MAX_ROWS // 2, len(jobs) - _MAX_ROWS))
    return jobs[start : start + _MAX_ROWS], len(jobs) - _MAX_ROWS


def _last(job: JobView) -> str:
    if job.reason:
        return harmless(job.reason.splitlines()[0])
    return harmless(job.tail[-1]) if job.tail else ""
