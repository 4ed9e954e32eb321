"""Reading back runs that lie in artifacts/: what happened, what was measured, what it comes to."""

from __future__ import annotations

import hashlib
from pathlib import Path

from orchestrator.agent.plan import Plan
from orchestrator.errors import EvidenceError
from orchestrator.report.view import RunView, members_of, question_of
from orchestrator.spec.document import load
from orchestrator.spec.ledger import Ledger, read_ledger
from orchestrator.store import check, history, results
from orchestrator.store.record import RunRecord, Sealed
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.conditions import read as read_conditions
from orchestrator.verdict.reconcile import reconcile


def view(folder: RunDir) -> RunView:
    """All that reports and reviews show of a run that is home.

    Raises:
        EvidenceError: the run is not home, or what lies here is damaged.
    """
    record = folder.read_record()
    if record.state != "home":
        raise EvidenceError(f"{record.run_id} is not home yet", fix=f"orch fetch {record.run_id}")
    check.what_is_read(folder, record)
    known = known_history(folder)
    found = results.read(folder.evidence, known)
    conditions = known_conditions(folder, known)
    ledger = sealed_ledger(folder, record)
    items = reconcile(ledger, found.found, known, conditions, found.problems)
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
        EvidenceError: the plan is missing, damaged, or not the one that was ordered.
    """
    again = _plan_again(folder)
    ordered = folder.read_record().plan_sha256
    content = _bytes(folder.plan, again)
    _refuse_changed(folder.plan, content, ordered, "it was ordered", again)
    try:
        return history.of_plan(Plan.from_json(content.decode("utf-8")).jobs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EvidenceError(f"{folder.plan} is no plan: {error}", fix=again) from error


def _plan_again(folder: RunDir) -> str:
    carried_out = folder.evidence / "plan.json"
    if carried_out.is_file():
        return f"copy {carried_out} to {folder.plan}"
    return f"restore {folder.plan}"


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


def sealed_ledger(folder: RunDir, record: RunRecord) -> Ledger | None:
    """The ledger of a run, as it was sealed.

    Raises:
        EvidenceError: the copy in the run's directory is missing, or not the one that was sealed.
    """
    if record.ledger is None:
        return None
    again = _ledger_again(folder, record.ledger)
    content = _bytes(folder.ledger, again)
    _refuse_changed(folder.ledger, content, record.ledger.sha256, "the run began", again)
    return read_ledger(load(folder.ledger))


def _ledger_again(folder: RunDir, sealed: Sealed) -> str:
    where = f"`git show {sealed.revision}:{sealed.file}`" if sealed.committed else "a copy of yours"
    return f"restore it from {where}; a new prediction belongs to the next run's ledger"


def _bytes(path: Path, fix: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}", fix=fix) from error


def _refuse_changed(path: Path, content: bytes, sha256: str, when: str, fix: str) -> None:
    """A record of a run that was started elsewhere knows no hash of its plan."""
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256:
        raise EvidenceError(
            f"{path} was changed after {when}",
            expected=f"sha256 {sha256[:12]}, found {found[:12]}",
            fix=fix,
        )
