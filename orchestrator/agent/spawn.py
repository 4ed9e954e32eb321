"""Starting a step's first process: own session, one pipe for its output, nothing inherited."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from typing import Mapping, Sequence

from orchestrator.agent import cgroup

_PR_SET_PDEATHSIG = 1


class SpawnError(Exception):
    """The program could not be started; the text says why."""


def spawn(
    argv: Sequence[str], env: Mapping[str, str], folder: str, output: int, entrance: str = ""
) -> int:
    """Start a program and return its process id, which is also its session and its group.

    Args:
        folder: its working directory.
        output: file descriptor of its standard output and standard error.
        entrance: of the control group that it enters first; it starts outside when it cannot.

    Raises:
        SpawnError: there is no such program or directory, or it may not be executed.
    """
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(report_read)
        try:
            _become(argv, env, folder, output, entrance)
        except BaseException as error:  # noqa: BLE001 - told to the parent, then this process ends
            os.write(report_write, str(error).encode("utf-8", "replace"))
        os._exit(127)
    os.close(report_write)
    with os.fdopen(report_read, "rb") as report:
        # The pipe closes by itself when exec succeeds.
        problem = report.read()
    if problem:
        os.waitpid(pid, 0)
        raise SpawnError(problem.decode("utf-8", "replace"))
    return pid


def _become(
    argv: Sequence[str], env: Mapping[str, str], folder: str, output: int, entrance: str
) -> None:
    os.setsid()
    if entrance:
        # Whoever asked for it looks whether it is there, and tells.
        with contextlib.suppress(OSError):
            cgroup.enter(entrance)
    _die_with_parent()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.set_wakeup_fd(-1)
    _hear_every_signal()
    os.chdir(folder)
    os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - that is what this module is for


def _hear_every_signal() -> None:
    """As in a fresh shell: whoever started the agent may have ignored or blocked some."""
    for number in range(1, signal.NSIG):
        # Not KILL and STOP, nor those that the C library keeps for itself.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _die_with_parent() -> None:
    """A step whose supervisor was killed must not run on unsupervised (Linux only)."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
