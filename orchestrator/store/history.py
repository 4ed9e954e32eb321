"""The journal folded into a picture of the run: every job and its state, and what was noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.agent import journal, manifest
from orchestrator.errors import EvidenceError
from orchestrator.store.watched import Watched, watched

RUNNING = "running"
WAITING = "waiting"


Point = Mapping[str, Any]
Exact = tuple[tuple[str, bool, Any], ...]


def exact(point: Point) -> Exact:
    """A point as a key in which `true` is not 1."""
    return tuple((name, isinstance(point[name], bool), point[name]) for name in sorted(point))


@dataclass(frozen=True)
class JobView:
    """One job as far as the journal tells."""

    id: str
    step: str
    round: int = 0
    folder: str = ""
    point: Mapping[str, Any] = field(default_factory=dict)
    state: str = WAITING
    deadline_s: float = 0.0
    started_s: float | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    tail: Sequence[str] = ()
    results: int | None = 0
    """None: the host could not read all that is there."""
    files: int = 0
    leftover: Sequence[str] = ()
    watched: Sequence[Watched] = ()

    @property
    def ended(self) -> bool:
        return self.state not in (RUNNING, WAITING)


@dataclass(frozen=True)
class History:
    """A whole run, in the order of the plan."""

    jobs: Mapping[str, JobView] = field(default_factory=dict)
    notes: Sequence[Mapping[str, Any]] = ()
    started: Mapping[str, Any] | None = None
    caches: Mapping[str, Any] | None = None
    ended: Mapping[str, Any] | None = None

    @cached_property
    def passed(self) -> Mapping[tuple[str, Exact], Sequence[str]]:
        """The jobs that passed, by step and exact point: one for each round."""
        passed: dict[tuple[str, Exact], list[str]] = {}
        for job in self.jobs.values():
            if job.state == journal.PASSED:
                passed.setdefault((job.step, exact(job.point)), []).append(job.id)
        return passed

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        counts: dict[str, int] = {}
        for job in self.jobs.values():
            counts[job.state] = counts.get(job.state, 0) + 1
        return counts

    @property
    def tree(self) -> str:
        """The source tree as the host computed it; empty when the run has not started."""
        return str((self.started or {}).get("tree", ""))

    def after(self, event: Mapping[str, Any]) -> History:
        """This history with one event more.

        Raises:
            EvidenceError: the event lacks what its kind must have; a host may send anything.
        """
        return self._after(event, dict(self.jobs))

    def _after(self, event: Mapping[str, Any], jobs: dict[str, JobView]) -> History:
        try:
            return self._folded(event, jobs)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise EvidenceError(f"not an event of a journal: {str(event)[:200]}") from error

    def _folded(self, event: Mapping[str, Any], jobs: dict[str, JobView]) -> History:
        kind = event["event"]
        if kind == journal.RUN_STARTED:
            return replace(self, started=event)
        if kind == journal.CACHES:
            return replace(self, caches=event)
        if kind == journal.RUN_ENDED:
            return replace(self, ended=event)
        if kind == journal.NOTE:
            told = {**event, "level": str(event["level"]), "text": str(event["text"])}
            return replace(self, notes=(*self.notes, told))
        if kind in (journal.STEP_STARTED, journal.STEP_ENDED):
            before = jobs.get(event["id"]) or JobView(str(event["id"]), str(event["step"]))
            change = _started if kind == journal.STEP_STARTED else _ended
            jobs[before.id] = change(before, event)
            return replace(self, jobs=jobs)
        return self


def of_plan(jobs: Iterable[Any]) -> History:
    """A history in which nothing has happened yet; `jobs` are those of the plan."""
    views = (
        JobView(j.id, j.step, j.round, j.folder, j.point, deadline_s=j.timeout_s) for j in jobs
    )
    return History({view.id: view for view in views})


def read(path: Path, start: History | None = None) -> History:
    """The history that a journal file tells.

    Raises:
        EvidenceError: the file is missing or damaged.
    """
    history = start or History()
    jobs = dict(history.jobs)
    try:
        for event in journal.read(str(path)):
            history = history._after(event, jobs)
    except (OSError, ValueError, RecursionError, EvidenceError) as error:
        raise EvidenceError(f"the journal {path} cannot be read: {error}") from error
    return history


def _started(job: JobView, event: Mapping[str, Any]) -> JobView:
    return replace(
        job,
        state=RUNNING,
        round=int(event["round"]),
        folder=_folder(event["folder"]),
        deadline_s=float(event["deadline_s"]),
        started_s=float(event["elapsed_s"]),
    )


def _ended(job: JobView, event: Mapping[str, Any]) -> JobView:
    return replace(
        job,
        state=_state(event["state"]),
        round=int(event["round"]),
        folder=_folder(event["folder"]),
        point=_point(event["point"]),
        duration_s=float(event["duration_s"]),
        exit_code=event.get("exit_code"),
        signal=event.get("signal"),
        reason=str(event["reason"]),
        tail=tuple(str(line) for line in event["tail"]),
        results=None if event.get("results", 0) is None else _count(event.get("results", 0)),
        files=_count(event.get("files", 0)),
        leftover=tuple(str(name) for name in event.get("leftover", ())),
        watched=watched(event.get("watched", ())),
    )


def _count(told: Any) -> int:
    if int(told) < 0:
        raise ValueError(f"no number of things: {told!r}")
    return int(told)


def _folder(told: Any) -> str:
    problem = manifest.path_problem(told)
    if problem:
        raise ValueError(f"the folder {told!r} {problem}")
    return str(told)


def _state(told: Any) -> str:
    if told not in journal.STATES:
        raise ValueError(f"no state of a job: {told!r}")
    return str(told)


def _point(told: Any) -> dict[str, Any]:
    if not all(isinstance(value, (str, int, float)) for value in told.values()):
        raise TypeError("a point has plain values")
    return dict(told)
