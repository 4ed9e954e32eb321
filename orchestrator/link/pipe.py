"""The seam of the link: a byte pipe to a `python3` on the host, and nothing more."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Protocol

from orchestrator.errors import Unreachable

CLOSE_DEADLINE_S = 5.0
# How long a host may take nothing at all of what it is sent.
STALL_S = 120.0
_STDERR_SHOWN = 2000
# A program keeps ignoring the signals that were ignored when it was started; ssh does, too.
_DEAF = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")


class Pipe(Protocol):
    """Bytes to and from a program on the host."""

    def read(self, count: int) -> bytes:
        """Up to `count` bytes; blocks; no bytes only at the end."""

    def write(self, data: bytes) -> None:
        """All of the bytes.

        Raises:
            TimeoutError: nobody took any of them for `STALL_S`.
            OSError: nobody takes them any more.
        """

    def close(self) -> None:
        """Let go of the link, whatever its state; returns soon."""

    def again(self) -> Pipe | None:
        """A pipe to another receiver over the same link, which then outlives this pipe's `close`.

        None where every pipe needs a link of its own, or this one is gone.
        """

    def is_alive(self) -> bool:
        """Whether the link still holds, as far as this side knows."""

    def last_words(self) -> str:
        """What the carrier or the host said on standard error, and how it ended."""

    def exit_code(self) -> int | None:
        """The exit code at the other end, if the carrier knows it."""


class ProcessPipe:
    """A pipe to a local child process: the local agent, or a program that carries the link."""

    def __init__(self, argv: Sequence[str], *, may_ask: bool = False) -> None:
        """Start it.

        Args:
            may_ask: it may ask something on the terminal, which a session of its own has not.
        """
        self._said = ""
        self._closing = threading.Lock()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._process = subprocess.Popen(
                [*(_DEAF if may_ask and os.name != "nt" else ()), *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                # Ctrl-C is for us: it must not cut the link before we have spoken.
                start_new_session=os.name != "nt" and not may_ask,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as error:
            self._errors.close()
            raise Unreachable(
                f"cannot start `{argv[0]}`: {error.strerror or error}",
                fix="correct the carrier of this host in hosts.yaml, or install the program",
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        if os.name != "nt":
            os.set_blocking(self._input.fileno(), False)

    def read(self, count: int) -> bytes:
        try:
            return os.read(self._output.fileno(), count)
        except (OSError, ValueError):
            # Closed by `close` in another thread.
            return b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._input.fileno(), view) :]
            except BlockingIOError:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        _, ready, _ = select.select([], [self._input], [], STALL_S)
        if not ready:
            raise TimeoutError(f"nothing was taken for {STALL_S:.0f} s")

    def close(self) -> None:
        # A run that leaves and a run that fails may both close, each in its own thread.
        with self._closing:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(timeout=CLOSE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=CLOSE_DEADLINE_S)
        with contextlib.suppress(OSError):
            self._output.close()
        if not self._errors.closed:
            self._said = self._read_errors()
            self._errors.close()

    def again(self) -> None:
        """Each process carries one pipe."""

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        with self._closing:
            return self._said if self._errors.closed else self._read_errors()

    def _read_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-_STDERR_SHOWN:].decode("utf-8", "replace").strip()

    def exit_code(self) -> int | None:
        try:
            return self._process.wait(timeout=CLOSE_DEADLINE_S)
        except subprocess.TimeoutExpired:
            return None
