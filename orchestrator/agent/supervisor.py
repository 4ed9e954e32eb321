"""The supervisor: carries out a plan on the host, whatever becomes of the laptop.

It is detached from the session that started it, holds the run's lock while it lives, and writes the
journal. A failing, hanging or crashing job never stops the jobs after it, except those that need
it; a failing supervisor step (a probe, the collection of files) is a note in the journal.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import traceback
from typing import Any, Mapping, Sequence

from orchestrator.agent import (
    activation,
    bundle,
    caches,
    checkout,
    environment,
    journal,
    leases,
    processes,
    spare,
)
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.collect import collect, start_mark
from orchestrator.agent.evidence import stack_signal
from orchestrator.agent.job import JobRun, Outcome, Surroundings
from orchestrator.agent.journal import Journal
from orchestrator.agent.layout import Root, RunFolder, write_atomically
from orchestrator.agent.leases import NoGpu, leased
from orchestrator.agent.plan import Job, Plan

SNAPSHOT_DEADLINE_S = 20.0
GPU_STATE_DEADLINE_S = 5.0
GPU_LIST_DEADLINE_S = 10.0
# Of the shell that started the agent; a step starts from a clean state.
_NOT_INHERITED = ("PWD", "OLDPWD", "SHLVL", "_")


class Supervisor:
    """One run. `run` returns when the bundle is whole."""

    def __init__(self, root: Root, folder: RunFolder, plan: Plan, secrets: Mapping[str, str]):
        self._root = root
        self._folder = folder
        self._plan = plan
        self._secrets = dict(secrets)
        self._masks = [value.encode("utf-8") for value in secrets.values()]
        self._journal: Journal | None = None
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._held: caches.Caches | None = None
        self._cannot_start = ""
        self._subreaper = False
        self._cancelled = False
        self._wake = _wake_on_signals(self._on_signal)
        self._env: dict[str, str] = {}
        self._states: dict[str, list[str]] = {}
        self._strangers: frozenset[int] = frozenset()

    def prepare(self) -> None:
        """Look at the host and make the caches, while the tree may still be on its way.

        What is found, or fails, is told by the journal once the run has started.
        """
        self._subreaper = processes.become_subreaper()
        try:
            self._held = self._make_ready()
        except _CannotStart as error:
            self._cannot_start = str(error)

    def announce(self) -> None:
        """The first journal lines: from here on the run exists, whoever asks."""
        self._journal = Journal(self._folder.journal)
        self._journal.write(
            journal.RUN_STARTED,
            run_id=self._plan.run_id,
            pid=os.getpid(),
            host=os.uname().nodename,
            tree=self._plan.tree,
            jobs=len(self._plan.jobs),
            subreaper=self._subreaper,
        )
        for event, facts in self._waiting:
            self._journal.write(event, **facts)
        self._waiting.clear()

    def run(self) -> None:
        """Carry out the plan, then bundle whatever came of it."""
        try:
            if self._cannot_start:
                self._tell(journal.NOTE, level="error", text=self._cannot_start)
            else:
                self._run_jobs()
        except Exception:  # noqa: BLE001 - a bug of ours must not lose what the jobs produced
            text = traceback.format_exc()
            self._tell(journal.NOTE, level="error", text=f"`orch` is broken: {text}")
        self._bundle()
        if self._held is not None and self._held.hold is not None:
            self._held.hold.close()

    def provide_for_the_next_run(self) -> None:
        """Write the tree out once more, when nobody waits for this run any longer."""
        store = BlobStore(self._root.blobs, self._plan.object_format)
        with open(self._folder.manifest, "rb") as file:
            wanted = checkout.entries(file.read())
        spare.make(self._root.spares, store, wanted)

    # -- before the first job

    def _make_ready(self) -> caches.Caches:
        plan = self._plan
        try:
            own = caches.overridden_in([plan.env, *(job.env for job in plan.jobs)])
            held = caches.prepare(plan.caches, self._root, self._folder, plan.experiment, own)
        except (caches.CacheBusy, OSError) as error:
            raise _CannotStart(f"the caches cannot be made ready: {error}") from error
        self._tell(journal.CACHES, **held.facts)
        base = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
        try:
            env = activation.environment(plan.activation, base, self._folder.path)
        except activation.ActivationError as error:
            raise _CannotStart(str(error)) from error
        self._tell(journal.ACTIVATED, path=env.get("PATH", ""), venv=env.get("VIRTUAL_ENV", ""))
        self._env = {**env, **held.variables, **plan.env}
        self._add_payload()
        self._snapshot("before")
        self._strangers = frozenset(p.pid for p in processes.descendants(os.getpid()))
        return held

    def _add_payload(self) -> None:
        """Our modules in front of the steps' PYTHONPATH, and Python that tells where it hangs."""
        behind = self._env.get("PYTHONPATH", "")
        self._env["PYTHONPATH"] = self._folder.payload + (os.pathsep + behind if behind else "")
        self._env.update(
            PYTHONUNBUFFERED="1",
            PYTHONFAULTHANDLER="1",
            ORCH_RUN_ID=self._plan.run_id,
            ORCH_STACK_SIGNAL=str(stack_signal() or ""),
        )
        self._env.update(self._secrets)

    def _snapshot(self, phase: str) -> None:
        """Record the conditions; that it failed is itself a fact, and stops nothing."""
        name = f"environment.{phase}.json"
        clean = {k: v for k, v in self._env.items() if k not in self._secrets}
        try:
            found = environment.snapshot(
                phase,
                os.path.join(self._folder.raw, phase),
                tree=self._folder.path,
                python=[env_python(clean)],
                env=clean,
                own_pids=[os.getpid()],
                deadline_s=SNAPSHOT_DEADLINE_S,
            )
            write_atomically(self._folder.inside(name), json.dumps(found, indent=1))
        except Exception as error:  # noqa: BLE001 - the note carries the traceback
            text = f"the environment snapshot `{phase}` failed: {error!r}"
            trace = traceback.format_exc()
            self._tell(journal.NOTE, level="error", text=text, traceback=trace)
            return
        self._tell(journal.ENVIRONMENT, phase=phase, file=name, duration_s=found["duration_s"])

    def _tell(self, event: str, **facts: Any) -> None:
        """Write to the journal, or keep for it while the run has not started."""
        if self._journal is None:
            self._waiting.append((event, facts))
        else:
            self._journal.write(event, **facts)

    # -- the jobs

    def _run_jobs(self) -> None:
        for number, job in enumerate(self._plan.jobs):
            if self._is_cancelled():
                return
            blocker = self._blocker(job)
            if blocker:
                self._end(job, Outcome(journal.SKIPPED, reason=blocker))
                continue
            try:
                self._run_job(number, job)
            except Exception:  # noqa: BLE001 - one job's trouble must not take the others along
                text = traceback.format_exc()
                self._end(job, Outcome(journal.FAILED, reason=f"`orch` is broken: {text}"))

    def _blocker(self, job: Job) -> str:
        """Why a job must be skipped: a step it needs did not pass everywhere."""
        for need in self._plan.needs.get(job.step, []):
            states = self._states.get(need, [])
            bad = [state for state in states if state != journal.PASSED]
            if bad or not states:
                return f"needs `{need}`, which {_in_words(bad[0] if bad else 'did not run')}"
        return ""

    def _run_job(self, number: int, job: Job) -> None:
        folder = self._folder.step(job.folder)
        os.makedirs(os.path.join(folder, "out"), exist_ok=True)
        mark = f"{self._plan.run_id}/{number}"
        try:
            with leased(
                job.gpus,
                self._root.leases,
                f"{self._plan.run_id} {job.id}",
                _list_gpus,
                job.timeout_s,
                self._is_cancelled,
            ) as gpus:
                self._tell(
                    journal.STEP_STARTED,
                    id=job.id,
                    step=job.step,
                    round=job.round,
                    folder=job.folder,
                    deadline_s=job.timeout_s,
                    gpus=[gpu["uuid"] for gpu in gpus],
                )
                self._carry_out(job, mark, folder, self._job_env(job, mark, folder, gpus))
        except NoGpu as error:
            state = journal.CANCELLED if self._is_cancelled() else journal.FAILED
            self._end(job, Outcome(state, reason=str(error)))

    def _carry_out(self, job: Job, mark: str, folder: str, env: Mapping[str, str]) -> None:
        workdir = os.path.join(self._folder.tree, job.workdir)
        since_ns = start_mark(folder)
        around = Surroundings(
            self._is_cancelled, self._wake, _gpu_state, self._masks, self._strangers
        )
        log = os.path.join(folder, "log")
        outcome = JobRun(job, mark, env, workdir, log, around).run()
        gathered = collect(
            job.collect, workdir, os.path.join(folder, "files"), since_ns, self._masks
        )
        for note in gathered.notes:
            self._tell(journal.NOTE, level="warning", id=job.id, text=note)
        if outcome.survivors:
            self._tell(
                journal.NOTE,
                level="error",
                id=job.id,
                quarantine=True,
                text=f"processes survived KILL: {', '.join(outcome.survivors)}",
            )
        self._end(job, outcome, files=gathered.files, results=_count_lines(env["ORCH_RESULTS"]))

    def _job_env(
        self, job: Job, mark: str, folder: str, gpus: Sequence[Mapping[str, Any]]
    ) -> dict[str, str]:
        env = {**self._env, **job.env}
        env.update(
            {
                processes.MARK: mark,
                "ORCH_STEP": job.step,
                "ORCH_POINT": job.id,
                "ORCH_ROUND": str(job.round),
                "ORCH_RESULTS": os.path.join(folder, "results.jsonl"),
                "ORCH_OUT": os.path.join(folder, "out"),
            }
        )
        if job.guards:
            env["ORCH_GUARDS"] = ",".join(job.guards)
        env.update(leases.variables(gpus))
        return env

    # -- the end

    def _end(self, job: Job, outcome: Outcome, **more: Any) -> None:
        self._states.setdefault(job.step, []).append(outcome.state)
        self._tell(
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

    def _bundle(self) -> None:
        """Zip the steps while the host is looked at once more, then the journal."""
        looking = threading.Thread(target=self._snapshot, args=("after",), daemon=True)
        looking.start()

        def last_word() -> None:
            looking.join(timeout=SNAPSHOT_DEADLINE_S + 5)
            self._end_the_rest()

        bundle.write(self._folder, before_the_journal=last_word)
        if self._journal is not None:
            self._journal.sync()

    def _end_the_rest(self) -> None:
        """A state for every job that never came to its turn, then the last word."""
        ended = sum(len(states) for states in self._states.values())
        state = journal.CANCELLED if self._cancelled else journal.NOT_STARTED
        for job in self._plan.jobs[ended:]:
            self._end(job, Outcome(state, reason="the run ended before its turn"))
        counts: dict[str, int] = {}
        for states in self._states.values():
            for one in states:
                counts[one] = counts.get(one, 0) + 1
        self._tell(journal.RUN_ENDED, counts=counts, cancelled=self._cancelled)

    def _is_cancelled(self) -> bool:
        self._cancelled = self._cancelled or os.path.exists(self._folder.cancel)
        return self._cancelled

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._cancelled = True


class _CannotStart(Exception):
    """Nothing can be run here; the journal says why."""


def hold_lock(folder: RunFolder) -> int:
    """Take the run's lock, for as long as this process lives.

    Raises:
        BlockingIOError: another supervisor has it.
    """
    handle = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _wake_on_signals(on_signal: Any) -> int:
    """A file descriptor that becomes readable on SIGCHLD and on the signals that cancel."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: on_signal(received))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return read_end


def _list_gpus() -> Sequence[Any]:
    """The GPUs of this host.

    Raises:
        NoGpu: there are some, and nobody told of them in time.
    """
    try:
        return environment.visible_gpus(GPU_LIST_DEADLINE_S)
    except environment.ProbeError as error:
        raise NoGpu(str(error)) from error


def _gpu_state() -> str:
    return environment.gpu_state_text(GPU_STATE_DEADLINE_S)


def env_python(env: Mapping[str, str]) -> str:
    """The interpreter that `python3` means in a step."""
    return env.get("ORCH_PYTHON", "python3")


def _count_lines(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0


def _in_words(state: str) -> str:
    return {
        journal.FAILED: "failed",
        journal.TIMED_OUT: "timed out",
        journal.SKIPPED: "was skipped",
        journal.CANCELLED: "was cancelled",
    }.get(state, "did not run")
