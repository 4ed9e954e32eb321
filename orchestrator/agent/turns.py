"""One job's turn in a run: its GPUs, its folder, its processes, then what it leaves."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Mapping, Optional, Sequence

from orchestrator.agent import conditions, jobenv, journal, recorded
from orchestrator.agent.collect import collect, start_mark
from orchestrator.agent.containment import Containment
from orchestrator.agent.job import JobRun, Surroundings
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.leases import NoGpu, leased
from orchestrator.agent.offered import offered, whose
from orchestrator.agent.outcome import Outcome
from orchestrator.agent.plan import Job
from orchestrator.agent.reserve import Reserve, is_full
from orchestrator.agent.sampler import Sampler
from orchestrator.agent.telling import Teller


@dataclass(frozen=True)
class Turns:
    """What the jobs of a run have in common; `take` gives one of them its turn.

    `env` holds the secrets, too; `around` has no control group yet: each job gets its own.
    """

    root: Root
    folder: RunFolder
    run_id: str
    env: Mapping[str, str]
    around: Surroundings
    teller: Teller
    reserve: Reserve
    containment: Containment
    sampler: Optional[Sampler] = None

    def take(self, number: int, job: Job) -> None:
        """Carry out the job of this number, and tell how it ended.

        Raises:
            OSError: its folder cannot be made, most often for want of room.
        """
        folder = self.folder.step(job.folder)
        self._make_folder(os.path.join(folder, "out"))
        holder = f"{self.run_id} {job.id}"
        env = {**self.env, **job.env}
        lease = leased(
            job.gpus,
            self.root.leases,
            holder,
            lambda: offered(conditions.list_gpus(), env),
            job.timeout_s,
            self.around.cancelled,
            shown_by=whose(env),
        )
        try:
            with lease as gpus:
                self.teller.job_started(job, gpus)
                blind = conditions.unproven(gpus)
                if blind:
                    self.teller.note("warning", blind, id=job.id)
                self._carry_out(number, job, folder, gpus)
        except NoGpu as error:
            state = journal.CANCELLED if self.around.cancelled() else journal.FAILED
            self.teller.job_ended(job, Outcome(state, reason=str(error)))

    def _make_folder(self, path: str) -> None:
        """Most file systems take a block for a directory; a step that writes nothing needs it."""
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            if not (is_full(error) and self.reserve.give(1)):
                raise
            os.makedirs(path, exist_ok=True)

    def _carry_out(
        self, number: int, job: Job, folder: str, gpus: Sequence[Mapping[str, Any]]
    ) -> None:
        mark = f"{self.run_id}/{number}"
        env = jobenv.of_job(self.env, job, mark, folder, gpus)
        workdir = os.path.join(self.folder.tree, job.workdir)
        since_ns = start_mark(folder) if job.collect else 0
        log = os.path.join(folder, "log")
        if self.sampler is not None:
            self.sampler.begin()
        with self.containment.of_job(
            number, lambda text: self.teller.note("warning", text, id=job.id)
        ) as group:
            around = replace(self.around, group=group)
            outcome = JobRun(job, mark, env, workdir, log, around).run()
        watched = self.sampler.seen([gpu["uuid"] for gpu in gpus]) if self.sampler else []
        files = os.path.join(folder, "files")
        gathered = collect(job.collect, workdir, files, since_ns, self.around.secrets)
        for note in gathered.notes:
            self.teller.note("warning", note, id=job.id)
        if outcome.log_problem:
            text = f"the log is not complete: {outcome.log_problem}"
            self.teller.note("error", text, id=job.id)
        if outcome.survivors:
            text = f"processes survived KILL: {', '.join(outcome.survivors)}"
            self.teller.note("error", text, id=job.id, quarantine=True)
        results = self._settle_results(job, env["ORCH_RESULTS"])
        self.teller.job_ended(job, outcome, files=gathered.files, results=results, watched=watched)

    def _settle_results(self, job: Job, path: str) -> Optional[int]:
        """How many results the step recorded; None when some of them are lost."""
        try:
            settled = recorded.settle(path, self.around.secrets)
        except OSError as error:
            text = f"what the step recorded cannot be read: {error.strerror}"
            self.teller.note("error", text, id=job.id)
            return None
        for problem in settled.problems:
            self.teller.note("error", f"`$ORCH_RESULTS`: {problem}", id=job.id)
        return None if settled.problems else settled.count
