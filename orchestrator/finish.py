"""From a run under way to its verdict: the second half of `orch run`, all of `orch attach`."""

from __future__ import annotations

import errno
import json as json_text
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator import ctrlc
from orchestrator.agent import journal
from orchestrator.errors import EvidenceError
from orchestrator.home import settle, verify
from orchestrator.link.following import (
    Arrived,
    Back,
    Event,
    Following,
    Lost,
    Receiving,
    Tail,
    Update,
)
from orchestrator.outcome import Outcome
from orchestrator.reading import sealed_ledger
from orchestrator.store import arrival, check, results, rundir
from orchestrator.store.record import Bundle
from orchestrator.verdict import conditions, decision
from orchestrator.verdict.reconcile import reconcile as judge

DETACHED_EXIT_CODE = 130
# EFBIG: a file system, or a limit of the shell, that ends below the size of the bundle.
_DISK_REFUSES = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}
)


def finish(outcome: Outcome) -> int:
    """From a run that is under way to its exit code.

    Raises:
        EvidenceError: what came home is damaged, or there is no room for it here.
    """
    try:
        return _finished(outcome)
    except OSError as error:
        if error.errno not in _DISK_REFUSES:
            raise
        place = error.filename or outcome.folder.path
        mend = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
        is_home = outcome.folder.read_record().state == "home"
        safe = "here" if is_home else f"at {outcome.host_name}"
        raise EvidenceError(
            f"what comes home cannot be written in {place}: {error.strerror};"
            f" the run and its evidence are safe {safe}",
            fix=f"{mend}, then orch fetch {outcome.record.run_id}",
        ) from error


def _finished(outcome: Outcome) -> int:
    for step in _steps(outcome):
        result = step(outcome)
        if isinstance(result, int):
            return result
        outcome = result
    raise AssertionError("`tell` returns an exit code")


def _steps(outcome: Outcome) -> Sequence[Callable[[Outcome], Outcome | int]]:
    if outcome.record.state == "home":
        check.what_is_read(outcome.folder, outcome.record)
        return reconcile, tell
    if arrival.has_all(outcome.folder, outcome.record.bundle):
        return settle, reconcile, tell
    return follow, verify, reconcile, tell


# ---- follow


def follow(outcome: Outcome) -> Outcome | int:
    """Watch the run until its bundle is here; the first Ctrl-C detaches, a second one cancels."""
    assert outcome.host is not None, "who follows has a host"
    following = Following(
        outcome.host_name,
        outcome.host,
        outcome.record.run_id,
        journal=outcome.folder.journal,
        bundle=outcome.folder.incoming,
        session=outcome.session,
        patience_s=outcome.patience_s,
    )
    with ctrlc.CtrlC() as ctrl_c:
        for update in following:
            outcome = _told(outcome, update)
            if isinstance(update, Arrived):
                bundle = Bundle(size=update.size, manifest_sha256=update.manifest_sha256)
                return replace(outcome.noted(bundle=bundle), following=following)
            if ctrl_c.is_pressed_twice():
                outcome.teller.note("cancelling; what was produced still comes home")
                following.cancel()
            elif ctrl_c.is_over():
                following.leave()
                return DETACHED_EXIT_CODE
            elif ctrl_c.is_news():
                _say_how_to_go_on(outcome)
    return DETACHED_EXIT_CODE


def _told(outcome: Outcome, update: Update) -> Outcome:
    """Pass an update on, and remember what it changes."""
    teller = outcome.teller
    if isinstance(update, Event):
        try:
            return _event_told(outcome, update.facts)
        except (EvidenceError, LookupError, TypeError, ValueError):
            # For people only: the journal that comes home is read strictly.
            teller.note("warning: a line of the host's journal is not understood")
            return outcome
    if isinstance(update, Tail):
        teller.tail(update.job, update.line)
    elif isinstance(update, Receiving):
        teller.receiving(update.done_bytes)
    elif isinstance(update, Lost):
        teller.link_lost(update.reason, update.pause_s)
    elif isinstance(update, Back):
        teller.link_back()
    else:
        teller.tick()
    return outcome


def _event_told(outcome: Outcome, event: dict[str, Any]) -> Outcome:
    outcome = replace(outcome, history=outcome.history.after(event))
    outcome.teller.event(event, outcome.history)
    return _noted_moment(outcome, event)


def _noted_moment(outcome: Outcome, event: dict[str, Any]) -> Outcome:
    kind = event["event"]
    if kind == journal.RUN_STARTED:
        tree = outcome.record.tree.model_copy(update={"host": event["tree"]})
        return outcome.noted(tree=tree, state="running")
    if kind == journal.STEP_STARTED and outcome.record.timings.first_step_s is None:
        return outcome.timed(first_step_s=outcome.since_begin_s())
    if kind == journal.RUN_ENDED:
        return outcome.timed(ended_s=outcome.since_begin_s()).noted(
            state="ended", counts=outcome.history.counts
        )
    return outcome


def _say_how_to_go_on(outcome: Outcome) -> None:
    run_id = outcome.record.run_id
    outcome.teller.note(
        f"detaching; the run goes on at {outcome.host_name}\n"
        f"  follow it again: orch attach {run_id}\n"
        f"  stop it:         orch cancel {run_id}   (or press Ctrl-C again within "
        f"{ctrlc.SECOND_PRESS_S:.0f} s)"
    )


# ---- reconcile


def reconcile(outcome: Outcome) -> Outcome:
    """The sealed ledger against what came home; the verdict is written beside it.

    Raises:
        EvidenceError: the ledger was changed after it was sealed.
    """
    outcome = judged(outcome)
    code = decision.exit_code(outcome.history, outcome.items, outcome.problems)
    verdict = {
        "schema": 1,
        "run_id": outcome.record.run_id,
        "exit_code": code,
        "items": [item.as_json() for item in outcome.items],
        "problems": list(outcome.problems),
    }
    text = json_text.dumps(verdict, indent=1, ensure_ascii=False)
    rundir.write_atomically(outcome.folder.verdict, text + "\n")
    return outcome.noted(exit_code=code)


def judged(outcome: Outcome) -> Outcome:
    """Every prediction with what became of it; nothing is written.

    Raises:
        EvidenceError: the ledger was changed after it was sealed.
    """
    folder, record = outcome.folder, outcome.record
    history = outcome.history
    found = results.read(folder.evidence, history)
    caches = (history.caches or {}).get("state", "")
    known = conditions.read(folder.evidence, caches)
    items = judge(sealed_ledger(folder, record), found.found, history, known, found.problems)
    return replace(outcome, items=tuple(items), problems=found.problems, conditions=known)


# ---- tell


def tell(outcome: Outcome) -> int:
    """The report, and the exit code."""
    # Imported here: rich takes longer to load than a no-op step to run.
    from orchestrator.report import summary

    outcome.teller.close()
    shown = summary.Summary(
        outcome.record,
        outcome.folder.path,
        outcome.history,
        outcome.items,
        outcome.conditions,
        outcome.problems,
    )
    if outcome.json:
        from orchestrator.report.jsonlines import say

        say("verdict", **summary.as_json(shown))
    else:
        summary.show(shown)
    sys.stdout.flush()
    return decision.exit_code(outcome.history, outcome.items, outcome.problems)
