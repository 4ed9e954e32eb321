"""What the supervisor tells: every event of a run, in the words of its journal."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from orchestrator.agent import journal
from orchestrator.agent.journal import Journal
from orchestrator.agent.outcome import Outcome
from orchestrator.agent.plan import Job
from orchestrator.agent.reserve import Reserve


class Teller:
    """Writes to the journal, and keeps for it what happens before the run has started."""

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._states: dict[str, list[str]] = {}

    def start(self, path: str, reserve: Reserve, **facts: Any) -> None:
        """The first journal lines: from here on the run exists, whoever asks."""
        self._journal = Journal(path, reserve=reserve)
        self._journal.write(journal.RUN_STARTED, **facts)
        for event, waiting in self._waiting:
            self._journal.write(event, **waiting)
        self._waiting.clear()

    def tell(self, event: str, **facts: Any) -> None:
        if self._journal is None:
            self._waiting.append((event, facts))
        else:
            self._journal.write(event, **facts)

    def note(self, level: str, text: str, **more: Any) -> None:
        """A sentence for people: `warning`, or `error` where something was lost."""
        self.tell(journal.NOTE, level=level, text=text, **more)

    def sync(self) -> None:
        if self._journal is not None:
            self._journal.sync()

    # -- jobs

    def job_started(self, job: Job, gpus: Sequence[Mapping[str, Any]]) -> None:
        self.tell(
            journal.STEP_STARTED,
            id=job.id,
            step=job.step,
            round=job.round,
            folder=job.folder,
            deadline_s=job.timeout_s,
            gpus=[gpu["uuid"] for gpu in gpus],
        )

    def job_ended(self, job: Job, outcome: Outcome, **more: Any) -> None:
        self.tell(
            journal.STEP_ENDED,
            id=job.id,
            step=job.step,
            round=job.round,
            folder=job.folder,
            point=job.point,
            state=outcome.state,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            reason=outcome.reason,
            duration_s=round(outcome.duration_s, 4),
            kill_s=round(outcome.kill_s, 4),
            leftover=outcome.leftover,
            survivors=outcome.survivors,
            stacks=outcome.stacks,
            out_of_memory=outcome.out_of_memory,
            log_bytes=outcome.log_bytes,
            tail=outcome.tail,
            **more,
        )
        # Only what the journal has counts: a full disk may have kept the line out of it.
        self._states.setdefault(job.step, []).append(outcome.state)

    def states_of(self, step: str) -> Sequence[str]:
        """How the jobs of a step ended, as far as they have."""
        return self._states.get(step, ())

    @property
    def ended_jobs(self) -> int:
        return sum(len(states) for states in self._states.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs ended in each state."""
        counts: dict[str, int] = {}
        for states in self._states.values():
            for state in states:
                counts[state] = counts.get(state, 0) + 1
        return counts
