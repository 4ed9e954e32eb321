"""Who supervises a run: the process that holds its lock, for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import time

from orchestrator.agent.layout import RunFolder

# A looker holds the lock for an instant; whoever takes it for good must outwait him.
_PATIENCE_S = 0.5
_LOOK_S = 0.005


def hold(run: RunFolder) -> int:
    """Take the run's lock until the descriptor is closed, or this process dies.

    Raises:
        BlockingIOError: somebody else has it.
    """
    handle = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(handle)
                raise
            time.sleep(_LOOK_S)
        else:
            return handle


def is_supervised(run: RunFolder) -> bool:
    """Whether the run's supervisor lives."""
    try:
        handle = os.open(run.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two that look at the same time must not take each other for the supervisor.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
