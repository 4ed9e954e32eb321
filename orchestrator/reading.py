"""Reading back runs that lie in artifacts/: what happened, what was measured, what it comes to."""

from __future__ import annotations

import hashlib

from orchestrator.agent.plan import Plan
from orchestrator.errors import EvidenceError
from orchestrator.report.view import RunView, members_of, question_of
from orchestrator.spec.document import load
from orchestrator.spec.ledger import Ledger, read_ledger
from orchestrator.store import check, history, results
from orchestrator.store.record import RunRecord
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


def sealed_ledger(folder: RunDir, record: RunRecord) -> Ledger | None:
    """The ledger of a run, as it was sealed.

    Raises:
        EvidenceError: the copy in the run's directory is not the one that was sealed.
    """
    if record.ledger is None:
        return None
    content = folder.ledger.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != record.ledger.sha256:
        raise EvidenceError(
            f"{folder.ledger} was changed after the run began",
            expected=f"sha256 {record.ledger.sha256[:12]}, found {found[:12]}",
            fix="restore it; a new prediction belongs to the next run's ledger",
        )
    return read_ledger(load(folder.ledger))
