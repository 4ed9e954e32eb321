"""Taking up a run again: one this laptop lost sight of, or one that another laptop started."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator import __version__
from orchestrator.agent.journal import now
from orchestrator.agent.plan import Plan
from orchestrator.link import visits
from orchestrator.outcome import Outcome
from orchestrator.reading import known_history
from orchestrator.report.teller import Teller
from orchestrator.spec.hosts import Host
from orchestrator.store import rundir
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.rundir import RunDir


def adopt(artifacts: Path, name: str, host_name: str, host: Host) -> RunDir:
    """Make the directory of a run that only its host knows.

    Its ledger stayed with whoever started it, so its numbers come home as `new`.

    Raises:
        Refused: the host has no single run of that name.
    """
    run_id = str(visits.status(host_name, host, name)["run_id"])
    text = visits.plan(host_name, host, run_id)
    plan = Plan.from_json(text)
    folder = rundir.create(artifacts, run_id)
    rundir.write_atomically(folder.plan, text)
    folder.write_record(
        RunRecord(
            run_id=run_id,
            experiment=plan.experiment,
            experiment_file="",
            host=host_name,
            carrier=host.carrier,
            created_at=now(),
            orch_version=__version__,
            state="running",
            tree=Tree(local=plan.tree, object_format=plan.object_format),
            code=plan.code,
            caches=plan.caches,
        )
    )
    return folder


def confirm(folder: RunDir, host_name: str, host: Host) -> None:
    """Tell the host late that a run is home, where its bundle is still the one that is here.

    Raises:
        HostError, Refused: the host cannot be reached, or has another bundle.
    """
    record = folder.read_record()
    assert record.bundle is not None, "a run that is home has a bundle"
    visits.tell_home(host_name, host, record.run_id, record.bundle)
    confirmed = record.bundle.model_copy(update={"confirmed": True})
    folder.write_record(record.model_copy(update={"bundle": confirmed}))


def outcome(
    folder: RunDir,
    host_name: str,
    host: Host | None,
    teller: Teller,
    *,
    json: bool = False,
    patience_s: float = 600.0,
) -> Outcome:
    """Where `finish` goes on with a run that was started before; one that is home needs no host."""
    return Outcome(
        folder=folder,
        record=folder.read_record(),
        host_name=host_name,
        host=host,
        history=known_history(folder),
        teller=teller,
        begun=time.monotonic(),
        patience_s=patience_s,
        json=json,
    )
