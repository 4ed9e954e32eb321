"""Taking up a run again: one this laptop lost sight of, or one that another laptop started."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator import __version__
from orchestrator.agent.journal import now
from orchestrator.agent.plan import Plan
from orchestrator.errors import EvidenceError
from orchestrator.finish import Outcome, sealed_ledger
from orchestrator.link import visits
from orchestrator.report.teller import Teller
from orchestrator.report.view import RunView, members_of, question_of
from orchestrator.spec.hosts import Host
from orchestrator.store import history, results, rundir
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.conditions import read as read_conditions
from orchestrator.verdict.reconcile import reconcile


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


def outcome(
    folder: RunDir,
    host_name: str,
    host: Host,
    teller: Teller,
    *,
    json: bool = False,
    patience_s: float = 600.0,
) -> Outcome:
    """Where `finish` goes on with a run that was started before."""
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


def view(folder: RunDir) -> RunView:
    """All that reports and reviews show of a run that is home.

    Raises:
        EvidenceError: the run is not home, or what lies here is damaged.
    """
    record = folder.read_record()
    if record.state != "home":
        raise EvidenceError(f"{record.run_id} is not home yet", fix=f"orch fetch {record.run_id}")
    known = known_history(folder)
    found = results.read(folder.evidence, known)
    conditions = known_conditions(folder, known)
    items = reconcile(sealed_ledger(folder, record), found.found, known, conditions)
    return RunView(
        folder=folder,
        record=record,
        history=known,
        items=items,
        results=found.found,
        problems=found.problems,
        conditions=conditions,
        members=members_of(folder.evidence),
        question=question_of(folder),
    )


def known_conditions(folder: RunDir, known: history.History) -> Conditions:
    return read_conditions(folder.evidence, (known.caches or {}).get("state", ""))


def planned(folder: RunDir) -> history.History:
    """A history in which nothing has happened yet, from the plan in the run's directory.

    Raises:
        EvidenceError: the plan is missing or damaged.
    """
    try:
        plan = Plan.from_json(folder.plan.read_text("utf-8"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EvidenceError(f"{folder.plan} cannot be read: {error}") from error
    return history.of_plan(plan.jobs)


def known_history(folder: RunDir) -> history.History:
    """What is known here of a run: the whole journal once it is home, the plan alone before."""
    inside = folder.evidence / "journal.jsonl"
    if inside.exists():
        return history.read(inside, planned(folder))
    return planned(folder)


def seen_history(folder: RunDir) -> history.History:
    """Like `known_history`, with what an unfinished visit brought home."""
    if not (folder.evidence / "journal.jsonl").exists() and folder.journal.exists():
        return history.read(folder.journal, planned(folder))
    return known_history(folder)
