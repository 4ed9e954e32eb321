"""Whole GPUs for a job: one lock file for each GPU, held for as long as the job runs.

A lock dies with the process that holds it, so a lease needs no clean-up. Beside the lock stands who
holds it, for people. A GPU with processes of strangers is not handed out: they do not know our
locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Callable, Iterator, Sequence

from orchestrator.agent.journal import now

_RETRY_S = 0.5


class NoGpu(Exception):
    """Too few GPUs, or none free in time; the text says who holds them."""


Listing = Callable[[], Sequence[Any]]


@contextmanager
def leased(
    count: int,
    folder: str,
    holder: str,
    list_gpus: Listing,
    deadline_s: float,
    cancelled: Callable[[], bool],
) -> Iterator[list[dict[str, Any]]]:
    """Hold `count` free GPUs; the value is what `list_gpus` says of each.

    Args:
        holder: who asks, written beside the lock.
        list_gpus: the GPUs of this host, each with `uuid`, `index` and `foreign_pids`.

    Raises:
        NoGpu: the host has fewer GPUs, or they did not become free in time.
    """
    if count == 0:
        yield []
        return
    end = time.monotonic() + deadline_s
    while True:
        gpus = list(list_gpus())
        if len(gpus) < count:
            raise NoGpu(f"the step wants {count} GPUs, this host shows {len(gpus)}")
        with ExitStack() as stack:
            taken, refused = _take(gpus, count, folder, holder, stack)
            if len(taken) == count:
                yield taken
                return
        if time.monotonic() > end or cancelled():
            raise NoGpu(f"no {count} free GPUs within {deadline_s:g} s: {'; '.join(refused)}")
        time.sleep(_RETRY_S)


def _take(
    gpus: Sequence[dict[str, Any]], count: int, folder: str, holder: str, stack: ExitStack
) -> tuple[list[dict[str, Any]], list[str]]:
    taken: list[dict[str, Any]] = []
    refused = []
    for gpu in gpus:
        if len(taken) == count:
            break
        if gpu["foreign_pids"]:
            refused.append(f"GPU {gpu['index']} is used by processes {gpu['foreign_pids']}")
            continue
        file = stack.enter_context(_open(folder, gpu["uuid"]))
        owner = _lock(file, holder)
        if owner is None:
            taken.append(gpu)
        else:
            refused.append(f"GPU {gpu['index']} is leased by {owner}")
    return taken, refused


def _open(folder: str, uuid: str) -> IO[str]:
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in uuid)
    return open(os.path.join(folder, f"{safe}.lock"), "a+", encoding="utf-8")


def _lock(file: IO[str], holder: str) -> str | None:
    """Take the lock; the present owner's name when somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        try:
            return str(json.loads(file.read())["holder"])
        except (ValueError, KeyError):
            return "somebody who left no name"
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"holder": holder, "pid": os.getpid(), "since": now()}))
    file.flush()
    return None
