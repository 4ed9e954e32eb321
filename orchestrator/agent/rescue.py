"""What can be said and done about a run from outside its supervisor: alive, cancel, rescue."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from orchestrator.agent import journal, processes, runlock
from orchestrator.agent.layout import RunFolder, write_atomically
from orchestrator.agent.plan import Plan

_KILL_DEADLINE_S = 10.0


def order_cancel(run: RunFolder, who: str) -> bool:
    """Tell the supervisor to stop; False when there is none any more."""
    if not runlock.is_supervised(run):
        return False
    write_atomically(run.cancel, who or "somebody")
    with open(run.supervisor, encoding="utf-8") as file:
        pid = int(json.load(file)["pid"])
    processes.send([pid], signal.SIGTERM)
    return True


def rescue(run: RunFolder) -> None:
    """End a run whose supervisor died: kill what it left, say so in the journal, bundle the rest.

    Whoever gets the run's lock does it; the others find a run that has ended.
    """
    try:
        handle = runlock.hold(run)
    except BlockingIOError:
        return
    try:
        # Imported here: a follower hardly ever needs what this pulls in.
        from orchestrator.agent import bundle

        _end_journal(run)
        if not os.path.exists(run.bundle_facts):
            bundle.write(run)
    finally:
        os.close(handle)


def _end_journal(run: RunFolder) -> None:
    events = journal.read(run.journal)
    if any(event["event"] == journal.RUN_ENDED for event in events):
        return
    with open(run.plan, encoding="utf-8") as file:
        plan = Plan.from_json(file.read())
    ended = {event["id"] for event in events if event["event"] == journal.STEP_ENDED}
    begun = {event["id"] for event in events if event["event"] == journal.STEP_STARTED}
    _cut_half_line(run.journal)
    writer = journal.Journal(run.journal, first_number=len(events))
    counts = _count([e["state"] for e in events if e["event"] == journal.STEP_ENDED])
    for number, job in enumerate(plan.jobs):
        if job.id in ended:
            continue
        killed = _kill_marked(f"{plan.run_id}/{number}") if job.id in begun else []
        state = journal.HOST_LOST if job.id in begun else journal.NOT_STARTED
        counts[state] = counts.get(state, 0) + 1
        writer.write(
            journal.STEP_ENDED,
            id=job.id,
            step=job.step,
            round=job.round,
            folder=job.folder,
            point=job.point,
            state=state,
            exit_code=None,
            signal=None,
            leftover=killed,
            reason="the supervisor on the host died",
            duration_s=0.0,
            tail=[],
            files=0,
            results=0,
        )
    writer.write(journal.RUN_ENDED, counts=counts, cancelled=False, rescued=True)
    writer.sync()
    writer.close()


def _kill_marked(mark: str) -> list[str]:
    """Kill what a dead supervisor's job left behind; these are not our children any more."""
    found = processes.marked(mark)
    names = {pid: process.name for pid, process in processes.table().items() if pid in found}
    processes.send(found, signal.SIGKILL)
    return sorted(names.values())


def _cut_half_line(path: str) -> None:
    with open(path, "rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


def _count(states: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return counts
