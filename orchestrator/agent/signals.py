"""What signals are called, and how they wake whoever waits in a select."""

from __future__ import annotations

import os
import signal
from typing import Callable


def signal_name(number: int) -> str:
    """`TERM`, `KILL`, ...; `RTMIN+6` for a real-time signal, which has no name of its own."""
    try:
        return signal.Signals(number).name.replace("SIG", "", 1)
    except ValueError:
        first = int(getattr(signal, "SIGRTMIN", number + 1))
        return f"RTMIN+{number - first}" if number > first else str(number)


def wake_on_signals(on_signal: Callable[[int], None]) -> int:
    """A file descriptor that becomes readable on SIGCHLD and on the signals that cancel a run."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: on_signal(received))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return read_end
