"""The supervisor: carries out a plan on the host, whatever becomes of the laptop.

It is detached from the session that started it, holds the run's lock while it lives, and writes the
journal. A failing, hanging or crashing job never stops the jobs after it, except those that need
it; a failing supervisor step (a probe, the collection of files) is a note in the journal.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from typing import Mapping, Optional

from orchestrator.agent import (
    activation,
    bundle,
    caches,
    checkout,
    conditions,
    jobenv,
    journal,
    needs,
    processes,
    sampler,
    spare,
)
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.containment import Containment
from orchestrator.agent.environment.surroundings import Surroundings as Host
from orchestrator.agent.job import Surroundings
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.outcome import Outcome
from orchestrator.agent.plan import Plan
from orchestrator.agent.reserve import Reserve, free_bytes, is_full
from orchestrator.agent.signals import wake_on_signals
from orchestrator.agent.telling import Teller
from orchestrator.agent.turns import Turns


class Supervisor:
    """One run. `run` returns when the bundle is whole."""

    def __init__(self, root: Root, folder: RunFolder, plan: Plan, secrets: Mapping[str, str]):
        self._root = root
        self._folder = folder
        self._plan = plan
        self._secrets = dict(secrets)
        self._masks = [value.encode("utf-8") for value in secrets.values()]
        self._teller = Teller()
        self._reserve = Reserve(folder.reserve)
        self._full_is_told = False
        self._held: caches.Caches | None = None
        self._cannot_start = ""
        self._containment = Containment()
        self._cancelled = False
        self._wake = wake_on_signals(self._on_signal)
        self._env: dict[str, str] = {}
        self._strangers: frozenset[int] = frozenset()
        self._sampler: Optional[sampler.Sampler] = None

    def prepare(self) -> None:
        """Look at the host and make the caches, while the tree may still be on its way.

        What is found, or fails, is told by the journal once the run has started.
        """
        try:
            self._make_ready()
        except _CannotStart as error:
            self._cannot_start = str(error)

    def announce(self) -> None:
        """From here on the run exists, whoever asks."""
        self._containment.begin(self._plan.run_id)
        self._reserve.fill()
        self._teller.start(
            self._folder.journal,
            self._reserve,
            run_id=self._plan.run_id,
            pid=os.getpid(),
            host=os.uname().nodename,
            tree=self._plan.tree,
            jobs=len(self._plan.jobs),
            **self._containment.facts,
        )

    def run(self) -> None:
        """Carry out the plan, then bundle whatever came of it."""
        try:
            if self._cannot_start:
                self._teller.note("error", self._cannot_start)
            else:
                self._run_jobs()
        except Exception:  # noqa: BLE001 - a bug of ours must not lose what the jobs produced
            self._teller.note("error", f"`orch` is broken: {traceback.format_exc()}")
        self._bundle()
        self._containment.end()
        if self._held is not None and self._held.hold is not None:
            self._held.hold.close()

    def provide_for_the_next_run(self) -> None:
        """Write the tree out once more, when nobody waits for this run any longer."""
        store = BlobStore(self._root.blobs, self._plan.object_format)
        with open(self._folder.manifest, "rb") as file:
            wanted = checkout.entries(file.read())
        spare.make(self._root.spares, store, wanted)

    # -- before the first job

    def _make_ready(self) -> None:
        plan = self._plan
        own = caches.overridden_in([plan.env, *(job.env for job in plan.jobs)])
        try:
            held = caches.prepare(plan.caches, self._root, self._folder, plan.experiment, own)
        except (caches.CacheBusy, OSError) as error:
            raise _CannotStart(f"the caches cannot be made ready: {error}") from error
        self._held = held
        self._teller.tell(journal.CACHES, **held.facts)
        try:
            env = activation.environment(plan.activation, jobenv.inherited(), self._folder.path)
        except activation.ActivationError as error:
            raise _CannotStart(str(error)) from error
        path, venv = env.get("PATH", ""), env.get("VIRTUAL_ENV", "")
        self._teller.tell(journal.ACTIVATED, path=path, venv=venv)
        self._env = jobenv.of_run(env, held.variables, plan, self._folder)
        self._look("before")
        watching = sampler.command(Host.here(path)) if sampler.is_wanted(plan.env) else None
        if watching is not None:
            self._sampler = sampler.Sampler(watching, self._folder.raw)
        self._strangers = frozenset(p.pid for p in processes.descendants(os.getpid()))

    def _look(self, phase: str) -> None:
        clean = {k: v for k, v in self._env.items() if k not in self._secrets}
        conditions.record(phase, self._folder, clean, self._teller)

    # -- the jobs

    def _run_jobs(self) -> None:
        if self._sampler is None:
            self._take_turns()
            return
        self._sampler.start()
        try:
            self._take_turns()
        finally:
            problem = self._sampler.stop()
            if problem:
                self._teller.note("warning", f"the GPUs were not watched to the end: {problem}")

    def _take_turns(self) -> None:
        turns = self._turns()
        for number, job in enumerate(self._plan.jobs):
            if self._is_cancelled():
                return
            blocker = needs.blocker(self._plan.needs.get(job.step, ()), self._teller.states_of)
            if blocker:
                self._teller.job_ended(job, Outcome(journal.SKIPPED, reason=blocker))
                continue
            self._keep_room()
            try:
                turns.take(number, job)
            except OSError as error:
                if not is_full(error):
                    raise
                text = f"{error.strerror}: {error.filename or self._folder.path}"
                self._teller.job_ended(job, Outcome(journal.FAILED, reason=f"cannot start: {text}"))
            except Exception:  # noqa: BLE001 - one job's trouble must not take the others along
                reason = f"`orch` is broken: {traceback.format_exc()}"
                self._teller.job_ended(job, Outcome(journal.FAILED, reason=reason))

    def _keep_room(self) -> None:
        """Take the reserve again, or say once that there is no room for what steps write."""
        has_room = self._reserve.fill() and free_bytes(self._folder.path) > 0
        if not has_room and not self._full_is_told:
            self._full_is_told = True
            self._teller.note(
                "error",
                f"the disk that holds {self._folder.path} is full: what steps write there is lost",
            )

    def _turns(self) -> Turns:
        return Turns(
            self._root,
            self._folder,
            self._plan.run_id,
            {**self._env, **self._secrets},
            Surroundings(
                self._is_cancelled,
                self._wake,
                conditions.gpu_state,
                self._masks,
                self._strangers.union(self._sampler.pids if self._sampler else ()),
            ),
            self._teller,
            self._reserve,
            self._containment,
            self._sampler,
        )

    # -- the end

    def _bundle(self) -> None:
        """Zip the steps while the host is looked at once more, then the journal."""
        looking = threading.Thread(target=self._look, args=("after",), daemon=True)
        looking.start()
        bundle.write(
            self._folder,
            note=lambda text: self._teller.note("warning", text),
            lost=lambda text: self._teller.note("error", text),
            after_the_steps=lambda: looking.join(timeout=conditions.SNAPSHOT_DEADLINE_S + 5),
            before_the_journal=self._end_the_rest,
            secrets=self._masks,
        )
        self._teller.sync()

    def _end_the_rest(self) -> None:
        """A state for every job that never came to its turn, then the last word."""
        state = journal.CANCELLED if self._cancelled else journal.NOT_STARTED
        for job in self._plan.jobs[self._teller.ended_jobs :]:
            self._teller.job_ended(job, Outcome(state, reason="the run ended before its turn"))
        counts = self._teller.counts
        self._teller.tell(journal.RUN_ENDED, counts=counts, cancelled=self._cancelled)

    def _is_cancelled(self) -> bool:
        self._cancelled = self._cancelled or os.path.exists(self._folder.cancel)
        return self._cancelled

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._cancelled = True


class _CannotStart(Exception):
    """Nothing can be run here; the journal says why."""
