"""A run between its start and its verdict, as the steps that end it hand it on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.link.following import Following
from orchestrator.link.session import Session
from orchestrator.report.teller import Teller
from orchestrator.spec.hosts import Host
from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.rundir import RunDir
from orchestrator.verdict import conditions
from orchestrator.verdict.item import Item


@dataclass(frozen=True)
class Outcome:
    """A run between its start and its verdict."""

    folder: RunDir
    record: RunRecord
    host_name: str
    host: Host | None
    history: History
    teller: Teller
    begun: float
    session: Session | None = None
    patience_s: float = 600.0
    json: bool = False
    following: Following | None = None
    items: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    conditions: conditions.Conditions = field(default_factory=conditions.Conditions)

    def noted(self, **changes: Any) -> Outcome:
        """With another run.json, which is written at once."""
        record = self.record.model_copy(update=changes)
        self.folder.write_record(record)
        return replace(self, record=record)

    def timed(self, **moments: float) -> Outcome:
        return self.noted(timings=self.record.timings.model_copy(update=moments))

    def since_begin_s(self) -> float:
        return round(time.monotonic() - self.begun, 3)
