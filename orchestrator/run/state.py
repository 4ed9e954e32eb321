"""A run on its way, as the steps of `orch run` hand it on."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.agent.plan import Plan
from orchestrator.link.session import Session
from orchestrator.report.teller import Teller
from orchestrator.source.snapshot import Snapshot
from orchestrator.spec.expand import Prepared
from orchestrator.spec.hosts import Host
from orchestrator.store.record import Preflight, RunRecord
from orchestrator.store.rundir import RunDir

INTERRUPTED_EXIT_CODE = 130


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    experiment: Path
    host: str | None = None
    preflight: bool = True
    json: bool = False
    patience_s: float = 600.0
    note: str = ""


@dataclass(frozen=True)
class Run:
    """A run on its way; later steps fill in what earlier ones could not know."""

    options: Options
    teller: Teller
    cleanup: ExitStack
    begun: float
    project: Path = Path()
    prepared: Prepared | None = None
    host_name: str = ""
    host: Host | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    connecting: Future[Session] | None = None
    snapshotting: Future[Snapshot] | None = None
    session: Session | None = None
    connected_s: float = 0.0
    preflight: Preflight | None = None
    snapshot: Snapshot | None = None
    folder: RunDir | None = None
    hold: ExitStack = field(default_factory=ExitStack)
    record: RunRecord | None = None
    plan: Plan | None = None

    def since_begin_s(self) -> float:
        return round(time.monotonic() - self.begun, 3)


Step = Callable[[Run], Run | int]
