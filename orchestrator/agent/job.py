"""One job from start to proven end: deadline, evidence, stop signal, grace, KILL, empty tree."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Callable, Collection, Mapping, Sequence

from orchestrator.agent import evidence, journal, oom, processes
from orchestrator.agent.cgroup import Group
from orchestrator.agent.logfile import LogFile, Masker, last_lines
from orchestrator.agent.outcome import Outcome, of_status
from orchestrator.agent.plan import Job
from orchestrator.agent.spawn import SpawnError, spawn

KILL_DEADLINE_S = 10.0
_READ_BYTES = 256 << 10
_TAIL_LINES = 10
# Once the tree is empty nobody holds the pipe; a foreign daemon that does must not hold us up.
_LAST_OUTPUT_S = 1.0


@dataclass(frozen=True)
class Surroundings:
    """What a job needs of the run around it.

    `cancelled` is asked at every turn; `wake` is a file descriptor that becomes readable on a
    signal; `gpu_state` gives the text that is logged before a job is killed at its deadline;
    `group` is the control group of this job, where there is one.
    """

    cancelled: Callable[[], bool]
    wake: int
    gpu_state: Callable[[], str]
    secrets: Sequence[bytes] = ()
    strangers: Collection[int] = ()
    group: Group | None = None


def argv_of(job: Job) -> list[str]:
    """The program of a job: a bash that stops at the first failure, also inside a pipe.

    Without start-up files: bash would read them where it thinks that sshd started it, and a step
    would then depend on the host's ~/.bashrc. What a step needs is declared with the host.
    """
    if isinstance(job.run, str):
        return ["bash", "--norc", "-eo", "pipefail", "-c", job.run]
    return list(job.run)


class JobRun:
    """A job while it runs. Use `run` once."""

    def __init__(
        self,
        job: Job,
        mark: str,
        env: Mapping[str, str],
        folder: str,
        log: str,
        around: Surroundings,
    ) -> None:
        self._job = job
        self._mark = mark
        self._env = env
        self._folder = folder
        self._around = around
        self._log = LogFile(log, job.log_limit_bytes, around.secrets)
        self._leader = 0
        self._status: int | None = None
        self._ended_at = 0.0
        self._output = -1

    def run(self) -> Outcome:
        """Run the job to its proven end."""
        try:
            return self._run()
        except BaseException:
            # Trouble of ours must not leave the tree running beside the next job.
            self._kill_all()
            raise
        finally:
            self._close_output()

    def _run(self) -> Outcome:
        started = time.monotonic()
        kills_before = oom.kills()
        self._output, write_end = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._leader = self._spawn(write_end)
        except (SpawnError, OSError) as error:
            reason = f"cannot start: {error}"
            self._say(reason)
            return self._finished(Outcome(journal.FAILED, reason=reason))
        finally:
            os.close(write_end)
        why = self._wait(started + self._job.timeout_s)
        outcome = self._outcome(why)
        outcome.duration_s = (self._ended_at or time.monotonic()) - started
        self._empty_tree(outcome, why)
        self._last_output()
        if why == "ended" and outcome.was_killed:
            outcome.out_of_memory = oom.happened_since(kills_before)
        return self._finished(outcome)

    def _spawn(self, output: int) -> int:
        group = self._around.group
        entrance = group.entrance if group else ""
        leader = spawn(argv_of(self._job), self._env, self._folder, output, entrance)
        if group and not group.holds(leader):
            self._say("this step is not in a control group: the kernel did not let it in")
        return leader

    # -- waiting

    def _wait(self, deadline: float) -> str:
        """Until the leader ended, the deadline passed or the run was cancelled: says which."""
        while self._status is None:
            if self._around.cancelled():
                return "cancelled"
            left = deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            self._pump(left)
            self._reap()
        return "ended"

    def _pump(self, wait_s: float) -> int:
        """Move output into the log, waiting for some at most so long; returns the bytes moved."""
        watched = [fd for fd in (self._output, self._around.wake) if fd >= 0]
        ready, _, _ = select.select(watched, [], [], max(wait_s, 0))
        if self._around.wake in ready:
            _drain(self._around.wake)
        return self._read() if self._output in ready else 0

    def _read(self) -> int:
        try:
            piece = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return 0
        if piece:
            self._log.write(piece)
        else:
            self._close_output()
        return len(piece)

    def _reap(self) -> bool:
        return processes.reap(self._on_exit)

    def _on_exit(self, pid: int, status: int) -> None:
        if pid == self._leader:
            self._status = status
            self._ended_at = time.monotonic()

    # -- ending

    def _outcome(self, why: str) -> Outcome:
        if why == "deadline":
            return Outcome(journal.TIMED_OUT, reason=f"ran longer than {self._job.timeout_s:g} s")
        if why == "cancelled":
            return Outcome(journal.CANCELLED, reason="the run was cancelled")
        assert self._status is not None
        return of_status(self._status)

    def _empty_tree(self, outcome: Outcome, why: str) -> None:
        """Leave no process of the job behind, and say which ones there were."""
        if why == "ended" and self._reap():
            return
        begun = time.monotonic()
        tree = processes.members(self._mark, self._around.strangers)
        if why == "ended":
            outcome.leftover = sorted({process.name for process in tree.values()})
        elif why == "deadline":
            self._take_evidence(outcome, tree)
        if tree:
            self._ask_to_stop(tree)
        outcome.survivors = [f"{p.name} (pid {p.pid}, state {p.state})" for p in self._kill_all()]
        outcome.kill_s = time.monotonic() - begun

    def _kill_all(self) -> list[processes.Process]:
        """The kernel ends the whole control group in one stroke; then whoever is elsewhere."""
        if self._around.group:
            try:
                self._around.group.kill()
            except OSError as error:
                self._say(f"the control group could not be killed: {error.strerror}")
        return processes.kill_all(
            self._mark, self._on_exit, KILL_DEADLINE_S, self._around.strangers
        )

    def _take_evidence(self, outcome: Outcome, tree: Mapping[int, processes.Process]) -> None:
        self._say(f"the deadline of {self._job.timeout_s:g} s has passed")
        gpu_state = self._around.gpu_state()
        if gpu_state:
            self._say("state of the GPUs:")
            self._log.write(gpu_state.encode("utf-8", "replace").rstrip() + b"\n")
        outcome.stacks = evidence.ask_for_stacks(tree.values(), self._pump, self._say)

    def _ask_to_stop(self, tree: Mapping[int, processes.Process]) -> None:
        """The stop signal, then the grace; a stopped process is woken to receive it."""
        number = getattr(signal, f"SIG{self._job.stop.signal}")
        processes.send(tree, number)
        processes.send(tree, signal.SIGCONT)
        end = time.monotonic() + self._job.stop.grace_s
        while time.monotonic() < end:
            self._pump(min(0.05, end - time.monotonic()))
            if self._reap() or not processes.members(self._mark, self._around.strangers):
                return

    def _last_output(self) -> None:
        end = time.monotonic() + _LAST_OUTPUT_S
        while self._output >= 0 and time.monotonic() < end:
            if self._read() == 0 and self._output >= 0:
                self._pump(0.01)

    def _finished(self, outcome: Outcome) -> Outcome:
        self._log.close()
        outcome.log_bytes = self._log.total_bytes
        outcome.log_problem = self._log.problem
        outcome.tail = last_lines(self._log.recent, _TAIL_LINES)
        outcome.reason = _masked(outcome.reason, self._around.secrets)
        return outcome

    def _close_output(self) -> None:
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def _say(self, text: str) -> None:
        inside_a_line = self._log.recent and not self._log.recent.endswith(b"\n")
        separator = b"\n" if inside_a_line else b""
        self._log.write(separator + f"[orch] {text}\n".encode("utf-8", "replace"))


def _drain(handle: int) -> None:
    try:
        while os.read(handle, 4096):
            continue
    except BlockingIOError:
        return


def _masked(text: str, secrets: Sequence[bytes]) -> str:
    masker = Masker(secrets)
    raw = masker.mask(text.encode("utf-8", "replace")) + masker.rest()
    return raw.decode("utf-8", "replace")
