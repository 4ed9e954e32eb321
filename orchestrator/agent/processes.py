"""The process tree of a step: who belongs to it, how it is told to end, and the proof that it did.

The supervisor is a child subreaper, so whatever a step leaves behind, also after `setsid` and
double forks, becomes its child: when `waitpid` knows no child any more, the tree is empty.
Processes that a foreign daemon started for the step are found by the mark in their environment.
Where there is no /proc (macOS), `ps` and the process group have to do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Callable, Collection, Iterable

PROC = "/proc"
HAS_PROC = os.path.isdir("/proc/self")
MARK = "ORCH_JOB"
_PR_SET_CHILD_SUBREAPER = 36
_PS_DEADLINE_S = 5.0


@dataclass(frozen=True)
class Process:
    """One process, as far as its tree is concerned."""

    pid: int
    parent: int
    group: int
    state: str
    name: str


def become_subreaper() -> bool:
    """Adopt orphaned descendants; False where the system cannot do that."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def table() -> dict[int, Process]:
    """All processes of this machine that we can see."""
    if HAS_PROC:
        found = (_read_stat(name) for name in os.listdir(PROC) if name.isdigit())
        return {process.pid: process for process in found if process}
    return _ps_table()


def descendants(ancestor: int, processes: dict[int, Process] | None = None) -> list[Process]:
    """Every living process below one, children before grandchildren; zombies do not count."""
    known = table() if processes is None else processes
    children: dict[int, list[Process]] = {}
    for process in known.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        for child in children.get(waiting.pop(0), []):
            waiting.append(child.pid)
            if child.state != "Z":
                found.append(child)
    return found


def marked(job_mark: str) -> list[int]:
    """Processes whose environment names this job, wherever they hang in the tree."""
    wanted = f"{MARK}={job_mark}".encode()
    found: list[int] = []
    if not HAS_PROC:
        return found
    for name in os.listdir(PROC):
        if name.isdigit() and int(name) != os.getpid() and _has_variable(name, wanted):
            found.append(int(name))
    return found


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; sending it is then harmless."""
    try:
        with open(f"{PROC}/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError):
        return False
    return False


def send(pids: Iterable[int], number: int) -> None:
    """Signal processes; those that are gone by now are what we wanted."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            # A set-user-id program; the report names it among the survivors.
            continue


def reap(on_exit: Callable[[int, int], None]) -> bool:
    """Collect every child that has ended; True when no child is left at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        on_exit(pid, status)


def members(job_mark: str, strangers: Collection[int] = ()) -> dict[int, Process]:
    """The living processes of a job, by process id.

    Args:
        strangers: children of the supervisor that are not the job's, such as a hung probe.
    """
    processes = table()
    found = {process.pid: process for process in descendants(os.getpid(), processes)}
    for pid in marked(job_mark):
        if pid in processes and processes[pid].state != "Z":
            found[pid] = processes[pid]
    return {pid: process for pid, process in found.items() if pid not in strangers}


def kill_all(
    job_mark: str,
    on_exit: Callable[[int, int], None],
    deadline_s: float,
    strangers: Collection[int] = (),
) -> list[Process]:
    """KILL the tree again and again until it is empty; returns who survived the deadline.

    A process that is being killed can still fork; only an empty look ends this. A process in
    uninterruptible sleep (state D), as under a wedged GPU driver, survives and is named.
    """
    end = time.monotonic() + deadline_s
    while True:
        reap(on_exit)
        left = members(job_mark, strangers)
        if not left or time.monotonic() > end:
            return list(left.values())
        send(left, signal.SIGKILL)
        time.sleep(0.01)


def _read_stat(name: str) -> Process | None:
    try:
        with open(f"{PROC}/{name}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    # The program's name stands in brackets and may itself hold brackets and blanks.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 3:
        return None
    return Process(int(name), int(fields[1]), int(fields[2]), fields[0], head.partition("(")[2])


def _has_variable(pid: str, wanted: bytes) -> bool:
    try:
        with open(f"{PROC}/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def _ps_table() -> dict[int, Process]:
    output = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,state=,comm="],
        capture_output=True,
        timeout=_PS_DEADLINE_S,
        check=True,
    ).stdout.decode("utf-8", "replace")
    found = {}
    for line in output.splitlines():
        pid, parent, group, state, name = line.split(None, 4)
        found[int(pid)] = Process(int(pid), int(parent), int(group), state[0], name)
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True
