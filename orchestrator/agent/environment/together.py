"""Ask many questions at once, and leave those behind that do not come back in time."""

from __future__ import annotations

import os
import threading
import traceback
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Callable, Dict, Generic, Mapping, Sequence, Tuple, TypeVar, Union

from orchestrator.agent.environment.probe import Answer, Command, Deadline, ask, no_answer

T = TypeVar("T")


class ProbeError(RuntimeError):
    """A question about this host got no answer; the text says why."""


@dataclass(frozen=True)
class Job(Generic[T]):
    """A question to ask beside others: its name, the time it may take, and how to ask."""

    name: str
    limit_s: float
    run: Callable[[Deadline], T]


def together(jobs: Sequence[Job[T]], deadline: Deadline) -> Dict[str, Union[T, ProbeError]]:
    """Ask every question at once, each under its own limit inside the deadline.

    The answers come in the order of the questions. A job that breaks or is late is a `ProbeError`
    among them; its thread is left behind.
    """
    answers: SimpleQueue[Tuple[str, Union[T, ProbeError]]] = SimpleQueue()
    budget_s = deadline.less_closing()
    limits = {job.name: min(job.limit_s, budget_s) for job in jobs}
    for job in jobs:
        arguments = (job, limits[job.name], answers)
        threading.Thread(target=_run, args=arguments, daemon=True).start()
    result: Dict[str, Union[T, ProbeError]] = {}
    while len(result) < len(jobs):
        try:
            name, outcome = answers.get(timeout=deadline.remaining())
        except Empty:
            break
        result[name] = outcome
    late = {
        name: ProbeError(f"did not answer within {limit:.3g} s") for name, limit in limits.items()
    }
    return {job.name: result.get(job.name, late[job.name]) for job in jobs}


def _run(
    job: Job[T], limit_s: float, answers: SimpleQueue[Tuple[str, Union[T, ProbeError]]]
) -> None:
    try:
        answers.put((job.name, job.run(Deadline(limit_s))))
    except Exception as bug:  # noqa: BLE001  it becomes the answer, with its place
        place = traceback.extract_tb(bug.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        answers.put((job.name, ProbeError(f"the probe broke at {where}: {bug!r}")))


def ask_all(
    commands: Mapping[str, Command], limit_s: float, deadline: Deadline
) -> Dict[str, Answer]:
    """Ask several commands at once, each for `limit_s` at most; every one has an answer."""
    jobs = [Job(name, limit_s, partial(ask, command)) for name, command in commands.items()]
    return {
        name: no_answer(commands[name], str(outcome))
        if isinstance(outcome, ProbeError)
        else outcome
        for name, outcome in together(jobs, deadline).items()
    }
