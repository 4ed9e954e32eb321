"""Who supervises a run: the process that holds its lock, for as long as it lives."""

from __future__ import annotations

import fcntl
import os

from orchestrator.agent.layout import RunFolder


def hold(run: RunFolder) -> int:
    """Take the run's lock until the descriptor is closed, or this process dies.

    Raises:
        BlockingIOError: somebody else has it.
    """
    handle = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    return handle


def is_supervised(run: RunFolder) -> bool:
    """Whether the run's supervisor lives."""
    try:
        handle = os.open(run.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
