"""Whose turn the store of blobs is: many pushes use it at once, a sweep has it alone."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import Iterator

from orchestrator.agent.layout import Root

_LOOK_S = 0.05


class StoreBusy(Exception):
    """Others did not let go of the store in time; the text says what to do."""


@contextmanager
def used(root: Root, deadline_s: float) -> Iterator[None]:
    """Nothing is removed from the store meanwhile.

    Raises:
        StoreBusy: a sweep did not end in time.
    """
    with _held(root, fcntl.LOCK_SH, deadline_s):
        yield


@contextmanager
def alone(root: Root, deadline_s: float) -> Iterator[None]:
    """Nobody reads or fills the store meanwhile.

    Raises:
        StoreBusy: a push did not end in time.
    """
    with _held(root, fcntl.LOCK_EX, deadline_s):
        yield


@contextmanager
def _held(root: Root, kind: int, deadline_s: float) -> Iterator[None]:
    path = f"{root.blobs}.lock"
    end = time.monotonic() + deadline_s
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(handle, kind):
            if time.monotonic() > end:
                raise StoreBusy(f"{path} was held by others for {deadline_s:g} s; try again later")
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
