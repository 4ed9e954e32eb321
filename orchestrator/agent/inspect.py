"""Short visits: what runs are here, how one stands, its plan, its log, its cancellation."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Mapping

from orchestrator.agent import journal
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.frames import PIECE_BYTES, Data
from orchestrator.agent.launch import Refusal
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.logfile import own_line, tail_files
from orchestrator.agent.plan import Job, Plan
from orchestrator.agent.rescue import order_cancel
from orchestrator.agent.runlock import is_supervised
from orchestrator.agent.session import existing_run

_LOOK_S = 0.1
_BEAT_S = 5.0
_SILENCE_S = 90.0


def list_runs(link: Conversation, hello: Mapping[str, Any]) -> None:
    """All runs of this root, oldest first; a damaged one is told with what is wrong with it."""
    root = Root.at(hello["root"])
    link.tell("runs", runs=[state_of(root.run(run_id)) for run_id in _started(root)])


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
    """A job's log from its beginning; with `follow`, until the job has ended.

    Of one that has outgrown its head meanwhile, the newest bytes lie beside it: they are sent as
    they are now, or with `follow` announced, since they come behind the head when the job ends.
    """
    folder = existing_run(Root.at(hello["root"]), hello["run_id"])
    job = _job(folder, hello.get("job"))
    link.tell("log_of", id=job.id)
    path = folder.step(job.folder, "log")
    offset, beat_at = 0, time.monotonic()
    ended, announced = not hello.get("follow"), False
    while True:
        ended = ended or _has_ended(folder, job)
        moved = _send_new(link, path, offset)
        offset += moved
        if ended and not moved:
            _send_beyond(link, path, offset)
            break
        if not (moved or announced) and tail_files(path):
            announced = True
            text = (
                "half of the log limit is reached; the newest lines follow when the job has ended"
            )
            link.send("log", offset, own_line(text))
        # While there is more to send, nobody waits for a word of the controller.
        if _controller_left(link, 0 if moved else _LOOK_S):
            return
        if not moved and time.monotonic() > beat_at:
            beat_at = time.monotonic() + _BEAT_S
            link.tell("beat", at=journal.now())
    link.tell("bye")


def state_of(run: RunFolder) -> dict[str, Any]:
    """A run in one line: how far it is, since when, how large; `damage` says what is unreadable."""
    events, jobs, damage = [], 0, ""
    try:
        events = journal.read(run.journal)
        with open(run.plan, encoding="utf-8") as file:
            jobs = len(Plan.from_json(file.read()).jobs)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # Whatever else the files hold than what was written there once.
        damage = f"its journal or its plan cannot be read: {error!r}"
    ended = any(event["event"] == journal.RUN_ENDED for event in events)
    return {
        "run_id": run.run_id,
        "started_at": events[0].get("at", "") if events else "",
        "jobs": jobs,
        "ended_jobs": sum(event["event"] == journal.STEP_ENDED for event in events),
        "ended": ended and os.path.exists(run.bundle_facts),
        "alive": is_supervised(run),
        "size": _size(run.path),
        "damage": damage,
    }


def _started(root: Root) -> list[str]:
    """Ids of the runs that have begun here; other directories are none."""
    found = []
    for name in sorted(os.listdir(root.runs)):
        # A name that no controller gives is the user's own.
        with contextlib.suppress(ValueError):
            if os.path.exists(root.run(name).journal):
                found.append(name)
    return found


def _find(root: Root, name: str) -> RunFolder:
    """The run of that id, or of that beginning when only one has it."""
    try:
        root.run(name)
    except ValueError as error:
        raise Refusal("no_such_run", str(error)) from error
    known = _started(root)
    matching = [name] if name in known else [run_id for run_id in known if run_id.startswith(name)]
    if len(matching) != 1:
        which = ", ".join(matching[:5]) or "none"
        raise Refusal("no_such_run", f"`{name}` names no single run on this host: {which}")
    return root.run(matching[0])


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
    # Asked first: a supervisor that ends between the two looks has written its last event.
    supervised = is_supervised(run)
    events = journal.read(run.journal)
    ended = any(e["event"] == journal.STEP_ENDED and e["id"] == job.id for e in events)
    return ended or not supervised


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


def _send_beyond(link: Conversation, path: str, offset: int) -> None:
    """What was kept since the head was full, of a log that its supervisor has not finished."""
    names = tail_files(path)
    if names:
        link.send("log", offset, own_line("some may be left out here; the newest lines follow"))
    for name in names:
        place = 0
        while (moved := _send_new(link, name, place)) > 0:
            place += moved


def _controller_left(link: Conversation, wait_s: float) -> bool:
    while link.waiting(wait_s):
        frame = link.next()
        if not isinstance(frame, Data) and frame["type"] == "detach":
            return True
    return time.monotonic() - link.heard_at > _SILENCE_S


def _size(folder: str) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            # A run that is alive renames and removes files while they are counted.
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total
