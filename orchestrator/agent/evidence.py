"""What a hanging step is asked before it is told to stop: where every Python thread stands."""

from __future__ import annotations

import signal
import time
from typing import Callable, Iterable

from orchestrator.agent import processes

# Beyond the first few real-time signals, which C libraries use. NCCL takes USR1, others USR2.
_OFFSET = 12
_MAX_ASKED = 32
_QUIET_S = 0.15
_ANSWER_S = 2.0


def stack_signal() -> int:
    """The signal on which a Python process of a step writes its stacks; 0 where there is none."""
    if processes.HAS_PROC:
        return signal.SIGRTMIN + _OFFSET
    # Its default action is to do nothing, so it may be sent to programs that do not know it.
    return int(getattr(signal, "SIGINFO", 0))


def ask_for_stacks(
    tree: Iterable[processes.Process], pump: Callable[[float], int], say: Callable[[str], None]
) -> int:
    """Have the Python processes of a tree write their stacks into the log; returns how many.

    Args:
        pump: moves output into the log for so many seconds at most, returns the bytes moved.
        say: writes a line of ours into the log.
    """
    number = stack_signal()
    asked = 0
    for process in list(tree)[:_MAX_ASKED]:
        if number == 0 or not _answers(process.pid, number):
            continue
        say(f"Python stacks of process {process.pid} ({process.name}):")
        processes.send([process.pid], number)
        _wait_for_quiet(pump)
        asked += 1
    return asked


def _answers(pid: int, number: int) -> bool:
    return not processes.HAS_PROC or processes.catches(pid, number)


def _wait_for_quiet(pump: Callable[[float], int]) -> None:
    """Wait for the answer to begin, then for it to end."""
    end = time.monotonic() + _ANSWER_S
    answered = False
    while time.monotonic() < end:
        moved = pump(_QUIET_S)
        if moved == 0 and answered:
            return
        answered = answered or moved > 0
