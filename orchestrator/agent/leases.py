"""Whole GPUs for a job: one lock file for each GPU, held for as long as the job runs.

A lock dies with the process that holds it, so a lease needs no clean-up. Beside the lock stands who
holds it, for people. A GPU with processes of strangers is not handed out: they do not know our
locks. Neither is one of which nobody can tell, unless its memory is as good as empty.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Callable, Iterator, Mapping, Sequence

from orchestrator.agent.environment.processes import UNEXPLAINED_BYTES
from orchestrator.agent.journal import now
from orchestrator.agent.offered import CUDA, HIP, ROCR, is_nvidia

_RETRY_S = 0.5

Gpu = Mapping[str, Any]
Listing = Callable[[], Sequence[Gpu]]


class NoGpu(Exception):
    """Too few GPUs, or none free in time; the text says who holds them."""


@contextmanager
def leased(
    count: int,
    folder: str,
    holder: str,
    list_gpus: Listing,
    deadline_s: float,
    cancelled: Callable[[], bool],
    shown_by: str = "this host",
) -> Iterator[list[Gpu]]:
    """Hold `count` free GPUs; the value is what `list_gpus` says of each.

    Args:
        holder: who asks, written beside the lock.
        list_gpus: the GPUs to choose from, as `environment.visible_gpus` lists them.
        shown_by: who shows no more than those, for the refusal.

    Raises:
        NoGpu: the host has fewer GPUs, or they did not become free in time.
    """
    if count == 0:
        yield []
        return
    end = time.monotonic() + deadline_s
    while True:
        gpus = list_gpus()
        if len(gpus) < count:
            found = len(gpus) or "none"
            raise NoGpu(f"the step wants {_gpus(count)}, {shown_by} shows {found}")
        with ExitStack() as stack:
            taken, refused = _take(gpus, count, folder, holder, stack)
            if len(taken) == count:
                yield taken
                return
        if cancelled():
            raise NoGpu("the run was cancelled while it waited for a GPU")
        if time.monotonic() > end:
            wanted = "free GPU" if count == 1 else f"{count} free GPUs"
            raise NoGpu(f"no {wanted} within {deadline_s:g} s: {'; '.join(refused)}")
        time.sleep(_RETRY_S)


def variables(gpus: Sequence[Gpu], env: Mapping[str, str]) -> dict[str, str]:
    """What makes a process that finds `env` see these GPUs and no others.

    ROCm reads the variable of CUDA too, so each vendor's devices are named in its own way alone.
    Where its runtime is narrowed already, HIP's numbers are counted among what that leaves.
    """
    if not gpus:
        return {}
    if all(is_nvidia(gpu) for gpu in gpus):
        return {CUDA: ",".join(str(gpu["uuid"]) for gpu in gpus)}
    numbers = ",".join(str(gpu["index"]) for gpu in gpus)
    if ROCR in env:
        return {ROCR: numbers, HIP: ",".join(str(at) for at in range(len(gpus)))}
    return {HIP: numbers}


def indices(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The same GPUs by their number on the host, for programs that take no UUID.

    A slice of a GPU has no number of its own, so there is none for it.
    """
    if not gpus or any(str(gpu["uuid"]).startswith("MIG-") for gpu in gpus):
        return {}
    return {"ORCH_GPU_INDICES": ",".join(str(gpu["index"]) for gpu in gpus)}


def _take(
    gpus: Sequence[Gpu], count: int, folder: str, holder: str, stack: ExitStack
) -> tuple[list[Gpu], list[str]]:
    taken: list[Gpu] = []
    refused = []
    for gpu in gpus:
        if len(taken) == count:
            break
        others = _others(gpu)
        if others:
            refused.append(others)
            continue
        file = stack.enter_context(_open(folder, gpu))
        owner = _lock(file, holder)
        if owner is None:
            taken.append(gpu)
        else:
            refused.append(f"GPU {gpu['index']} is leased by {owner}")
    return taken, refused


def _others(gpu: Gpu) -> str:
    """Why a GPU may be in use by others; empty when it is not."""
    pids, memory = gpu["foreign_pids"], gpu["memory_used"]
    if pids:
        named = sorted("unknown" if pid is None else str(pid) for pid in pids)
        return f"GPU {gpu['index']} is used by processes {', '.join(named)}"
    if pids is None and (memory is None or memory > UNEXPLAINED_BYTES):
        used = "its memory in use is not known" if memory is None else f"{memory >> 20} MiB in use"
        return f"nobody can tell who uses GPU {gpu['index']} ({used})"
    return ""


def _open(folder: str, gpu: Gpu) -> IO[str]:
    name = str(gpu["uuid"] or f"index-{gpu['index']}")
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
    return open(os.path.join(folder, f"{safe}.lock"), "a+", encoding="utf-8")


def _lock(file: IO[str], holder: str) -> str | None:
    """Take the lock; the present owner's name when somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        try:
            return str(json.loads(file.read())["holder"])
        except (ValueError, KeyError, TypeError):
            return "somebody who left no name"
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"holder": holder, "pid": os.getpid(), "since": now()}))
    file.flush()
    return None


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
