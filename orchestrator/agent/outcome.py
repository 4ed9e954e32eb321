"""How a job ended, and how that is read from what its first process left."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

from orchestrator.agent import journal
from orchestrator.agent.signals import signal_name


@dataclass
class Outcome:
    """How a job ended: exactly one of `exit_code` and `signal` is set when a process ran."""

    state: str
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    duration_s: float = 0.0
    kill_s: float = 0.0
    leftover: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    stacks: int = 0
    out_of_memory: bool | None = None
    log_bytes: int = 0
    log_problem: str = ""
    tail: list[str] = field(default_factory=list)

    @property
    def was_killed(self) -> bool:
        """By signal KILL, or a child of a shell was, which says so by its exit code."""
        return self.signal == "KILL" or self.exit_code == 128 + signal.SIGKILL


def of_status(status: int) -> Outcome:
    """The end of a job whose first process ended by itself, by its wait status."""
    if os.WIFSIGNALED(status):
        name = signal_name(os.WTERMSIG(status))
        return Outcome(journal.FAILED, signal=name, reason=f"killed by signal {name}")
    code = os.WEXITSTATUS(status)
    if code == 0:
        return Outcome(journal.PASSED, exit_code=0)
    return Outcome(journal.FAILED, exit_code=code, reason=f"exit code {code}")
