"""How a run is told while it happens: one protocol, three voices (live, plain, json)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from orchestrator.store.history import History


class Teller(Protocol):
    """Hears everything that happens in a run, in order. Implementations never raise on content."""

    def stage(self, name: str, text: str) -> None:
        """A stage of the run was reached: plan, snapshot, connect, push, ..."""

    def uploading(self, done_bytes: int, total_bytes: int) -> None:
        """So many bytes of the tree are sent."""

    def event(self, event: Mapping[str, Any], history: History) -> None:
        """A line of the journal, and the picture with it."""

    def tail(self, job: str, line: str) -> None:
        """The running job's last line of output."""

    def receiving(self, done_bytes: int) -> None:
        """So many bytes of the bundle are here."""

    def link_lost(self, reason: str, pause_s: float) -> None:
        """The link broke; it is tried again after a pause."""

    def link_back(self) -> None:
        """The link holds again."""

    def note(self, text: str) -> None:
        """Something the user should read."""

    def tick(self) -> None:
        """Time passed."""

    def close(self) -> None:
        """The live part is over; what follows is the report."""


def choose(*, plain: bool, json: bool) -> Teller:
    """The voice for this terminal."""
    if json:
        from orchestrator.report.jsonlines import JsonTeller

        return JsonTeller()
    if plain or not sys.stdout.isatty():
        from orchestrator.report.plain import PlainTeller

        return PlainTeller()
    from orchestrator.report.live import LiveTeller

    return LiveTeller()


@contextmanager
def closing(teller: Teller) -> Iterator[Teller]:
    """The live part ends before anything else is written, whatever happened."""
    try:
        yield teller
    finally:
        teller.close()
