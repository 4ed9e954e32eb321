"""Short visits: what runs are here, how one stands, its plan, its log, its cancellation."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from orchestrator.agent import journal
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.frames import PIECE_BYTES, Data
from orchestrator.agent.launch import Refusal
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.plan import Job, Plan
from orchestrator.agent.rescue import order_cancel
from orchestrator.agent.runlock import is_supervised
from orchestrator.agent.session import existing_run

_LOOK_S = 0.1
_BEAT_S = 5.0
_SILENCE_S = 90.0


def list_runs(link: Conversation, hello: Mapping[str, Any]) -> None:
    """All runs of this root, oldest first."""
    root = Root.at(hello["root"])
    folders = [root.run(name) for name in sorted(os.listdir(root.runs)) if not name.startswith(".")]
    link.tell("runs", runs=[state_of(run) for run in folders if os.path.exists(run.journal)])


def status(link: Conversation, hello: Mapping[str, Any]) -> None:
    link.tell("status", **state_of(_find(Root.at(hello["root"]), hello["run_id"])))


def plan(link: Conversation, hello: Mapping[str, Any]) -> None:
    folder = _find(Root.at(hello["root"]), hello["run_id"])
    with open(folder.plan, encoding="utf-8") as file:
        link.tell("plan", run_id=folder.run_id, plan=file.read())


def cancel(link: Conversation, hello: Mapping[str, Any]) -> None:
    folder = existing_run(Root.at(hello["root"]), hello["run_id"])
    link.tell("cancelled", was_running=order_cancel(folder, str(hello.get("who", ""))))


def logs(link: Conversation, hello: Mapping[str, Any]) -> None:
    """A job's log from its beginning; with `follow`, until the job has ended."""
    folder = existing_run(Root.at(hello["root"]), hello["run_id"])
    job = _job(folder, hello.get("job"))
    link.tell("log_of", id=job.id)
    path = folder.step(job.folder, "log")
    offset, beat_at = 0, time.monotonic()
    while True:
        ended = not hello.get("follow") or _has_ended(folder, job)
        moved = _send_new(link, path, offset)
        offset += moved
        if ended and not moved:
            break
        if _controller_left(link):
            return
        if not moved and time.monotonic() > beat_at:
            beat_at = time.monotonic() + _BEAT_S
            link.tell("beat", at=journal.now())
    link.tell("bye")


def state_of(run: RunFolder) -> dict[str, Any]:
    """A run in one line: how far it is, since when, and how large."""
    events = journal.read(run.journal)
    with open(run.plan, encoding="utf-8") as file:
        jobs = len(Plan.from_json(file.read()).jobs)
    ended = any(event["event"] == journal.RUN_ENDED for event in events)
    return {
        "run_id": run.run_id,
        "started_at": events[0]["at"] if events else "",
        "jobs": jobs,
        "ended_jobs": sum(event["event"] == journal.STEP_ENDED for event in events),
        "ended": ended and os.path.exists(run.bundle_facts),
        "alive": is_supervised(run),
        "size": _size(run.path),
    }


def _find(root: Root, name: str) -> RunFolder:
    """The run of that id, or of that beginning when only one has it."""
    if os.path.exists(root.run(name).journal):
        return root.run(name)
    matching = [run_id for run_id in os.listdir(root.runs) if run_id.startswith(name)]
    if len(matching) != 1:
        which = ", ".join(sorted(matching)[:5]) or "none"
        raise Refusal("no_such_run", f"`{name}` names no single run on this host: {which}")
    return existing_run(root, matching[0])


def _job(run: RunFolder, wanted: str | None) -> Job:
    """The job of that id; without one, the one that runs now or ran last."""
    with open(run.plan, encoding="utf-8") as file:
        jobs = {job.id: job for job in Plan.from_json(file.read()).jobs}
    if wanted:
        if wanted not in jobs:
            raise Refusal("no_such_job", f"the run has no job `{wanted}`: {', '.join(jobs)}")
        return jobs[wanted]
    begun = [e["id"] for e in journal.read(run.journal) if e["event"] == journal.STEP_STARTED]
    if not begun:
        raise Refusal("no_such_job", "no job has begun yet")
    return jobs[begun[-1]]


def _has_ended(run: RunFolder, job: Job) -> bool:
    events = journal.read(run.journal)
    if any(e["event"] == journal.STEP_ENDED and e["id"] == job.id for e in events):
        return True
    return not is_supervised(run)


def _send_new(link: Conversation, path: str, offset: int) -> int:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            piece = file.read(PIECE_BYTES)
    except FileNotFoundError:
        return 0
    if piece:
        link.send("log", offset, piece)
    return len(piece)


def _controller_left(link: Conversation) -> bool:
    while link.waiting(_LOOK_S):
        frame = link.next()
        if not isinstance(frame, Data) and frame["type"] == "detach":
            return True
    return time.monotonic() - link.heard_at > _SILENCE_S


def _size(folder: str) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            total += os.lstat(os.path.join(path, name)).st_size
    return total
