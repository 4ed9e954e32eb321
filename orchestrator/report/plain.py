"""A run as plain lines: for logs, pipes and CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from orchestrator.agent import journal
from orchestrator.report.words import harmless, how_it_ended
from orchestrator.spec.quantity import show_duration, show_size
from orchestrator.store.history import History


class PlainTeller:
    """One line for each thing that happened, with the seconds since the command began."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._told_bytes = 0

    def stage(self, name: str, text: str) -> None:
        self._say(text)

    def uploading(self, done_bytes: int, total_bytes: int) -> None:
        if done_bytes == total_bytes:
            self._say(f"sent {show_size(total_bytes)} of files")

    def event(self, event: Mapping[str, Any], history: History) -> None:
        kind = event["event"]
        if kind == journal.STEP_STARTED:
            self._say(f"{event['id']}: started, deadline {show_duration(event['deadline_s'])}")
        elif kind == journal.STEP_ENDED:
            job = history.jobs[event["id"]]
            self._say(f"{job.id}: {how_it_ended(job)}")
            if job.state not in (journal.PASSED, journal.SKIPPED):
                for line in job.tail[-5:]:
                    self._say(f"    {harmless(line)}")
        elif kind == journal.NOTE:
            self._say(f"{event['level']}: {harmless(event['text'])}")
        elif kind == journal.RUN_ENDED:
            self._say("the run has ended on the host; its bundle is on the way")

    def tail(self, job: str, line: str) -> None:
        """Plain output is for reading afterwards; the log has these lines."""

    def receiving(self, done_bytes: int) -> None:
        if done_bytes - self._told_bytes > 50_000_000:
            self._told_bytes = done_bytes
            self._say(f"received {show_size(done_bytes)}")

    def link_lost(self, reason: str, pause_s: float) -> None:
        self._say(
            f"the link broke ({harmless(reason)}); the run goes on; next try in {pause_s:.2g} s"
        )

    def link_back(self) -> None:
        self._say("the link holds again")

    def note(self, text: str) -> None:
        self._say(harmless(text))

    def tick(self) -> None:
        """Nothing moves in plain text."""

    def close(self) -> None:
        sys.stdout.flush()

    def _say(self, text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - self._begun:7.2f}] {text}\n")
        sys.stdout.flush()
