"""Ask tools and files that may never answer, and come back in time whatever they do.

A monitoring tool of a sick GPU can hang in the kernel (state D), where not even KILL ends it. So
each command runs in its own session, behind `/bin/sh` (an `exec` from a dead network file system
then stops the shell, not this process), is killed at its deadline, and left behind if it will not
die.

These calls wait for their children by id. A caller that collects children with `waitpid(-1)` at the
same time takes their exit status away; the answer then says so.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

OUTPUT_LIMIT_BYTES = 32 << 20
_TERM_GRACE_S = 0.1
_KILL_GRACE_S = 0.3

# `cd` happens in the shell for the same reason as `exec`: the directory may not answer.
_LAUNCH = 'cd -- "$1" && shift && exec "$@"'


class Deadline:
    """A moment on the monotonic clock, handed down so that nobody waits past it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def remaining(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def less_closing(self) -> float:
        """What is left when the time to kill what still runs is set aside."""
        left_s = self.remaining()
        return left_s - min(_TERM_GRACE_S + _KILL_GRACE_S, 0.2 * left_s)


@dataclass(frozen=True)
class Command:
    """A command to ask. `env` None: this process's own environment, with the C locale.

    `shown` is told in place of `argv` where that is too long to read. `enough` looks at the output
    of a command that would print for ever and says when to stop it.
    """

    argv: Tuple[str, ...]
    env: Optional[Mapping[str, str]] = None
    cwd: str = "/"
    shown: Tuple[str, ...] = ()
    enough: Optional[Callable[[bytes], bool]] = None


@dataclass(frozen=True)
class Answer:
    """What a command said. `exit` is None when it was stopped or its status was lost.

    `problem` is empty when it said all it had to: it ended with 0, or was stopped with `enough`.
    """

    command: Tuple[str, ...]
    exit: Optional[int]
    output: bytes
    errors: bytes
    problem: str

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    @property
    def last_words(self) -> str:
        """The last line it printed, on either stream: tools put their errors on both."""
        lines = (self.errors or self.output).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""


def find_tool(name: str, path: str, places: Sequence[str] = ()) -> Optional[str]:
    """The absolute path of a tool on `path` or in the places its vendor installs it."""
    return shutil.which(name, path=os.pathsep.join([path, *places]))


def ask(command: Command, deadline: Deadline) -> Answer:
    """Run one command and collect what it prints until it ends, has said enough, or is late.

    Never raises for what the command does.
    """
    collect_abandoned()
    limit_s = deadline.remaining()
    if limit_s <= 0:
        return no_answer(command, "was not asked: no time was left")
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _LAUNCH, "sh", command.cwd, *command.argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, LC_ALL="C") if command.env is None else dict(command.env),
            start_new_session=True,
        )
    except OSError as failure:
        return no_answer(command, f"could not be started: {failure}")
    return _Conversation(child, command).until(deadline, limit_s)


def no_answer(command: Command, problem: str) -> Answer:
    """The answer of a command that never came to say anything."""
    return Answer(command.shown or command.argv, None, b"", b"", problem)


class _CutShortError(Exception):
    """The command has to be stopped; the text says why, and is empty when it is late."""


class _Conversation:
    """One running command and what it has said so far."""

    def __init__(self, child: subprocess.Popen[bytes], command: Command) -> None:
        self.child = child
        self.command = command
        self.output = bytearray()
        self.errors = bytearray()
        self.status: Optional[int] = None
        self.status_lost = False

    def until(self, deadline: Deadline, limit_s: float) -> Answer:
        try:
            if self._listen(deadline):
                return self._answer(None, self._stop(""))
            if not self._wait(deadline.remaining()):
                raise _CutShortError
            return self._answer(self.status, self._judgement())
        except _CutShortError as cut:
            why = str(cut) or f"did not answer within {limit_s:.3g} s"
            return self._answer(None, self._stop(why))
        finally:
            for stream in (self.child.stdout, self.child.stderr):
                if stream is not None:
                    stream.close()

    def _listen(self, deadline: Deadline) -> bool:
        """Collect output until both streams end, or the command ends and leaves them to another.

        True when it has said enough and must be stopped.
        """
        assert self.child.stdout is not None
        assert self.child.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.child.stdout, selectors.EVENT_READ, self.output)
            selector.register(self.child.stderr, selectors.EVENT_READ, self.errors)
            while selector.get_map():
                if deadline.remaining() <= 0:
                    raise _CutShortError
                events = selector.select(min(deadline.remaining(), 0.05))
                for key, _ in events:
                    chunk = os.read(key.fd, 1 << 16)
                    key.data.extend(chunk)
                    if not chunk:
                        selector.unregister(key.fileobj)
                enough = self.command.enough
                if enough is not None and enough(bytes(self.output)):
                    return True
                if len(self.output) + len(self.errors) > OUTPUT_LIMIT_BYTES:
                    raise _CutShortError(f"printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB")
                if not events and self._ended():
                    self._signal(signal.SIGKILL)
                    break
        return False

    def _ended(self) -> bool:
        if self.status is not None or self.status_lost:
            return True
        try:
            pid, status = os.waitpid(self.child.pid, os.WNOHANG)
        except ChildProcessError:
            self.status_lost = True
            self.child.returncode = -1
            return True
        if not pid:
            return False
        signalled = os.WIFSIGNALED(status)
        self.status = -os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
        # Tells Popen that nobody has to wait for this child any more.
        self.child.returncode = self.status
        return True

    def _wait(self, seconds: float) -> bool:
        limit = Deadline(seconds)
        pause_s = 0.0002
        while not self._ended():
            if limit.remaining() <= 0:
                return False
            time.sleep(min(pause_s, limit.remaining()))
            pause_s = min(pause_s * 2, 0.01)
        return True

    def _stop(self, why: str) -> str:
        for stop, grace_s in ((signal.SIGTERM, _TERM_GRACE_S), (signal.SIGKILL, _KILL_GRACE_S)):
            self._signal(stop)
            if self._wait(grace_s):
                self._signal(signal.SIGKILL)
                return why
        with _abandoned_lock:
            _abandoned.append(self.child)
        return f"{why}, and process {self.child.pid} hangs in the kernel and cannot be killed"

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.child.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _judgement(self) -> str:
        if self.status is None:
            return "ended, but somebody else collected its exit status"
        if self.status == 0:
            return ""
        ending = f"exit status {self.status}" if self.status > 0 else f"signal {-self.status}"
        words = self._answer(self.status, "").last_words
        return f"ended with {ending}: {words}" if words else f"ended with {ending}"

    def _answer(self, status: Optional[int], problem: str) -> Answer:
        name = self.command.shown or self.command.argv
        return Answer(name, status, bytes(self.output), bytes(self.errors), problem)


_abandoned: List[subprocess.Popen[bytes]] = []
_abandoned_lock = threading.Lock()


def collect_abandoned() -> int:
    """Reap commands that were left behind and have died since; how many are still there."""
    with _abandoned_lock:
        for child in list(_abandoned):
            try:
                pid, _ = os.waitpid(child.pid, os.WNOHANG)
            except ChildProcessError:
                pid = child.pid
            if pid:
                child.returncode = -signal.SIGKILL
                _abandoned.remove(child)
        return len(_abandoned)
