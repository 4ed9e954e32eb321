"""What can be said and done about a run from outside its supervisor: alive, cancel, rescue."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import Counter
from functools import cached_property
from typing import Any, Callable, Mapping, Sequence

from orchestrator.agent import journal, manifest, processes, recorded, removal, runlock
from orchestrator.agent.cgroup import Group
from orchestrator.agent.journal import Journal
from orchestrator.agent.launch import Refusal
from orchestrator.agent.layout import RunFolder, write_atomically
from orchestrator.agent.plan import Job, Plan
from orchestrator.agent.reserve import Reserve
from orchestrator.agent.stepfiles import MEMBERS, files_below
from orchestrator.agent.wholeness import checked, fingerprint, is_whole

_KILL_DEADLINE_S = 10.0
_SHOWN = 10


def order_cancel(run: RunFolder, who: str) -> bool:
    """Tell the supervisor to stop; False when there is none any more."""
    if not runlock.is_supervised(run):
        return False
    write_atomically(run.cancel, who or "somebody")
    with open(run.supervisor, encoding="utf-8") as file:
        pid = int(json.load(file)["pid"])
    processes.send([pid], signal.SIGTERM)
    return True


def leave_nobody(run: RunFolder) -> None:
    """End what a lost run left in its control group; for one that is removed unrescued.

    Raises:
        OSError: the kernel refuses to kill it.
    """
    try:
        group = _group_of(journal.read(run.journal))
    except (OSError, ValueError):
        # A damaged journal names no group.
        return
    if group:
        group.kill()
        group.remove()


def rescue(run: RunFolder, is_good: Callable[[RunFolder], bool] = is_whole) -> bool:
    """End a run whose supervisor died: kill what it left, say so in the journal, bundle the rest.

    One that had ended, and whose bundle is not good any more, is bundled anew from what is there.
    Whoever gets the run's lock does it; the others find a run that has ended.

    Returns:
        Whether there is a bundle now; not while somebody else has the lock.

    Raises:
        OSError: its files cannot be read, or the bundle cannot be written.
        Refusal: its plan or its journal is damaged, so that nobody knows what it was.
    """
    try:
        handle = runlock.hold(run)
    except BlockingIOError:
        return False
    try:
        if not is_good(run):
            _end(run)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refusal("damaged_run", f"{run.path} is damaged: {error}") from error
    finally:
        os.close(handle)
    return True


def _end(run: RunFolder) -> None:
    # Imported here: a follower hardly ever needs what this pulls in.
    from orchestrator.agent import bundle

    with open(run.plan, encoding="utf-8") as file:
        plan = Plan.from_json(file.read())
    _cut_half_line(run.journal)
    # First of all: where it cannot be read, the bundle that is there is all that is left.
    ending = _Ending(plan, run)
    had_ended = _forget_bundle(run)
    if had_ended:
        ending.note("the bundle on the host was gone or damaged, and is made anew of what is there")
    ending.end_jobs()
    bundle.write(
        run,
        note=ending.note,
        lost=lambda text: ending.note(text, "error"),
        before_the_journal=ending.last_word,
        left_out=ending.unchecked(),
    )
    ending.close()


def _forget_bundle(run: RunFolder) -> bool:
    """Remove what is left of a finished bundle: nobody takes it for one, and its room is free."""
    had_ended = os.path.exists(run.bundle_facts)
    for path in (run.bundle_facts, run.bundle):
        if os.path.isdir(path) and not os.path.islink(path):
            removal.remove(path)
            continue
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return had_ended


class _Ending:
    """The last words of a run, in the place of a supervisor that died without them."""

    def __init__(self, plan: Plan, run: RunFolder) -> None:
        events = journal.read(run.journal)
        self._plan = plan
        self._run = run
        self._begun = {e["id"] for e in events if e["event"] == journal.STEP_STARTED}
        self._states = {e["id"]: e["state"] for e in events if e["event"] == journal.STEP_ENDED}
        self._results = {
            e["id"]: e.get("results") for e in events if e["event"] == journal.STEP_ENDED
        }
        self._has_ended = any(e["event"] == journal.RUN_ENDED for e in events)
        self._lost: list[Job] = []
        self._checked = checked(run)
        self._group = _group_of(events)
        self._journal = Journal(run.journal, first_number=len(events), reserve=Reserve(run.reserve))

    def end_jobs(self) -> None:
        """A state for every job that has none: lost where it had begun, not started elsewhere."""
        # One job ran at a time, so whatever is in the run's group is of the first lost one.
        killed = self._kill_group()
        for number, job in enumerate(self._plan.jobs):
            if job.id in self._states:
                continue
            if job.id in self._begun:
                self._lost.append(job)
                killed += _kill_marked(f"{self._plan.run_id}/{number}")
            self._end_job(job, sorted(set(killed)))
            killed = []

    def _kill_group(self) -> list[str]:
        """Kill what is in the run's control group, whatever it did with its environment."""
        if self._group is None:
            return []
        table = processes.table()
        names = [table[pid].name for pid in self._group.pids() if pid in table]
        try:
            self._group.kill()
        except OSError as error:
            self.note(f"the control group of the run could not be killed: {error}")
            return []
        self._group.remove()
        return names

    def _end_job(self, job: Job, killed: list[str]) -> None:
        state = journal.HOST_LOST if job.id in self._begun else journal.NOT_STARTED
        self._states[job.id] = state
        self._journal.write(
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
            results=self._settled(job),
        )

    def _settled(self, job: Job) -> int:
        """How many results of a lost job come home, within the bounds of all results."""
        if self._plan.secrets or job not in self._lost:
            return 0
        try:
            settled = recorded.settle(self._run.step(job.folder, "results.jsonl"), ())
        except OSError as error:
            self.note(f"{job.id}: what it recorded cannot be read: {error.strerror}", "error")
            return 0
        for problem in settled.problems:
            self.note(f"{job.id}: `$ORCH_RESULTS`: {problem}", "error")
        return settled.count

    def unchecked(self) -> list[str]:
        """What may hold secrets: nobody knows their values any more, so all that may not come."""
        if not self._plan.secrets:
            return []
        if self._lost:
            self.note("files of lost jobs stay on the host: nobody can look for secrets in them")
        found = [name for name in self._there() if not self._may_come(name)]
        lost = tuple(f"steps/{job.folder}/" for job in self._lost)
        told = [name for name in found if not name.startswith(lost)] if lost else found
        if told:
            shown = ", ".join(f"`{name}`" for name in told[:_SHOWN])
            more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
            self.note(f"left on the host, where nobody can look for secrets in it: {shown}{more}")
        return found

    def _there(self) -> list[str]:
        """All that a bundle would hold, but the plan and the journal."""
        below = [
            name for top in ("steps", "environment") for name in files_below(self._run, top, ())
        ]
        beside = set(MEMBERS) - {"plan.json"}
        return below + sorted(name for name in beside if os.path.lexists(self._run.inside(name)))

    def _may_come(self, name: str) -> bool:
        """Whether a file is as it was when it was looked through, by its name and its content.

        Where no bundle was finished, what the supervisor frees of secrets as it writes it may.
        """
        if self._checked is None:
            return name in self._own or (not name.startswith("steps/") and _is_of_ours(name))
        try:
            mark = (manifest.portable_path(name), *fingerprint(self._run.inside(name)))
        except OSError:
            return False
        return mark in self._checked

    @cached_property
    def _own(self) -> frozenset[str]:
        """The logs, and the results that were counted: none are where they hold a secret."""
        logs = [f"steps/{job.folder}/log" for job in self._plan.jobs]
        ended = [job for job in self._plan.jobs if job not in self._lost]
        counted = [job.folder for job in ended if self._results.get(job.id)]
        return frozenset([*logs, *(f"steps/{folder}/results.jsonl" for folder in counted)])

    def note(self, text: str, level: str = "warning") -> None:
        self._journal.write(journal.NOTE, level=level, text=text)

    def last_word(self) -> None:
        if not self._has_ended:
            counts = dict(Counter(self._states.values()))
            self._journal.write(journal.RUN_ENDED, counts=counts, cancelled=False, rescued=True)
        self._journal.sync()

    def close(self) -> None:
        self._journal.close()


def _is_of_ours(name: str) -> bool:
    """What the agent and its probes write, and free of secrets as they do."""
    top, *inner = name.split("/")
    if top != "environment":
        return not inner
    return inner == ["gpu-samples.csv"] or (len(inner) == 2 and inner[0] in ("before", "after"))


def _group_of(events: Sequence[Mapping[str, Any]]) -> Group | None:
    """The control group of a run, while it is there."""
    started = next((e for e in events if e["event"] == journal.RUN_STARTED), {})
    return Group.at(str(started.get("cgroup", "")))


def _kill_marked(mark: str) -> list[str]:
    """Kill what a dead supervisor's job left behind; these are not our children any more."""
    names: dict[int, str] = {}
    end = time.monotonic() + _KILL_DEADLINE_S
    while time.monotonic() < end:
        # One that is being killed can still fork.
        found = processes.marked(mark)
        if not found:
            break
        table = processes.table()
        names.update({pid: table[pid].name for pid in found if pid in table})
        processes.send(found, signal.SIGKILL)
        time.sleep(0.01)
    return list(names.values())


def _cut_half_line(path: str) -> None:
    with open(path, "rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
