"""A run as JSON lines on standard output: for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from orchestrator.store.history import History


class JsonTeller:
    """One object a line, each with a `type`; the journal's events pass through unchanged."""

    def stage(self, name: str, text: str) -> None:
        self._say("stage", name=name, text=text)

    def uploading(self, done_bytes: int, total_bytes: int) -> None:
        self._say("uploading", done_bytes=done_bytes, total_bytes=total_bytes)

    def event(self, event: Mapping[str, Any], history: History) -> None:
        self._say("event", event=event)

    def tail(self, job: str, line: str) -> None:
        self._say("tail", id=job, line=line)

    def receiving(self, done_bytes: int) -> None:
        self._say("receiving", done_bytes=done_bytes)

    def link_lost(self, reason: str, pause_s: float) -> None:
        self._say("link_lost", reason=reason, pause_s=pause_s)

    def link_back(self) -> None:
        self._say("link_back")

    def note(self, text: str) -> None:
        self._say("note", text=text)

    def tick(self) -> None:
        """No news is no line."""

    def close(self) -> None:
        sys.stdout.flush()

    def _say(self, kind: str, **facts: Any) -> None:
        say(kind, **facts)


def say(kind: str, **facts: Any) -> None:
    """Write one object."""
    sys.stdout.write(json.dumps({"type": kind, **facts}, ensure_ascii=False) + "\n")
    sys.stdout.flush()
