"""From an experiment file to an ordered list of jobs."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent.plan import Job, Stop
from orchestrator.errors import SpecError
from orchestrator.spec import matrix, template
from orchestrator.spec.check import experiment_problems, ledger_problems
from orchestrator.spec.document import Document, load
from orchestrator.spec.experiment import Experiment, Step
from orchestrator.spec.ledger import Ledger, read_ledger
from orchestrator.spec.model import in_file_order, validate
from orchestrator.spec.words import show_scalar

# Time the host may need after a deadline: evidence, the last kill, and its wait.
KILL_ALLOWANCE_S = 10.0


@dataclass(frozen=True)
class Prepared:
    """An experiment that may run: the file, its jobs in order, and its ledger."""

    path: Path
    document: Document
    experiment: Experiment
    jobs: tuple[Job, ...]
    needs: Mapping[str, tuple[str, ...]]
    ledger: Ledger | None = None
    ledger_path: Path | None = None

    @property
    def worst_case_s(self) -> float:
        """Wall time if every job used its whole deadline, its grace and the kill after it."""
        return sum(job.timeout_s + job.stop.grace_s + KILL_ALLOWANCE_S for job in self.jobs)


def prepare(path: Path) -> Prepared:
    """Read an experiment and its ledger, and expand it.

    Raises:
        SpecError: with all mistakes of the file that is wrong.
    """
    document = load(path)
    experiment = validate(Experiment, document)
    found = in_file_order(experiment_problems(experiment, document))
    if found:
        raise SpecError(found)
    ledger_path = path.parent / experiment.ledger if experiment.ledger else None
    ledger = _ledger(experiment, document, ledger_path)
    jobs = tuple(_jobs(experiment))
    needs = {step.id: step.needs for step in experiment.steps}
    return Prepared(path, document, experiment, jobs, needs, ledger, ledger_path)


def _ledger(experiment: Experiment, document: Document, path: Path | None) -> Ledger | None:
    if path is None:
        return None
    if not path.is_file():
        raise SpecError(
            [
                document.problem(
                    ("ledger",),
                    f"no file `{experiment.ledger}` beside the experiment",
                    "a ledger written before the run",
                    "write it, or remove the key",
                )
            ]
        )
    ledger_document = load(path)
    ledger = read_ledger(ledger_document)
    found = list(ledger_problems(experiment, ledger, ledger_document))
    if found:
        raise SpecError(in_file_order(found))
    return ledger


def ordered(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps so that each follows what it needs; otherwise in the order of the file."""
    missing = {step.id: len(set(step.needs)) for step in steps}
    followers: dict[str, list[int]] = {step.id: [] for step in steps}
    for index, step in enumerate(steps):
        for need in set(step.needs):
            followers[need].append(index)
    ready = [index for index, step in enumerate(steps) if not step.needs]
    placed = []
    while ready:
        step = steps[heapq.heappop(ready)]
        placed.append(step)
        for index in followers[step.id]:
            missing[steps[index].id] -= 1
            if not missing[steps[index].id]:
                heapq.heappush(ready, index)
    return tuple(placed)


def _jobs(experiment: Experiment) -> Iterator[Job]:
    for step in ordered(experiment.steps):
        step_points = matrix.points(step.matrix)
        for number in range(step.rounds):
            # Every second round runs backwards: a drift of the host then favours no point.
            turn = step_points if number % 2 == 0 else step_points[::-1]
            for point in turn:
                yield _job(experiment, step, point, number)


def _job(experiment: Experiment, step: Step, point: matrix.Point, number: int) -> Job:
    timeout_s = step.timeout if step.timeout is not None else experiment.timeout
    assert timeout_s is not None, "checked by _timeout_problems"
    name = matrix.point_id(step.id, point)
    job_id = f"{name}#{number + 1}" if step.rounds > 1 else name
    return Job(
        id=job_id,
        step=step.id,
        point=dict(point),
        round=number,
        folder=folder_name(job_id),
        run=template.fill(step.run, point),
        timeout_s=timeout_s,
        workdir=step.workdir,
        env=step.env | {f"ORCH_POINT_{k.upper()}": show_scalar(v) for k, v in point.items()},
        gpus=step.gpus,
        stop=Stop(step.stop.signal, step.stop.grace),
        collect=list(step.collect),
        log_limit_bytes=step.log_limit if step.log_limit is not None else experiment.log_limit,
        guards=list(step.guards),
    )


def folder_name(job_id: str) -> str:
    """A directory name for a job: `sweep@experts=64,tokens=512`, valid on every file system.

    A hash follows where a character had to go, where the name was cut, and where two names could
    differ in case alone.
    """
    readable = job_id.replace("[", "@", 1).replace("]", "", 1)
    safe = re.sub(r"[^A-Za-z0-9_.=,+@#-]", "_", readable)
    if safe == readable == safe.lower() and len(safe) <= 100 and not safe.endswith("."):
        return safe
    return f"{safe[:88].rstrip('.')}-{hashlib.sha256(job_id.encode()).hexdigest()[:8]}"
