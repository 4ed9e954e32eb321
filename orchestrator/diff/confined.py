"""Comparing in a process of its own, under a deadline and a memory limit.

A file that makes a reader crash, hang or grow ends that process and nothing else: its pair gets
`unreadable` or `skipped` with the reason, and the next pair a fresh process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import orchestrator
from orchestrator.diff import limits
from orchestrator.diff.blob import Blob
from orchestrator.diff.limits import Limits
from orchestrator.diff.record import Record, Status
from orchestrator.diff.refusal import Skipped, Unreadable
from orchestrator.errors import InternalError
from orchestrator.spec.compare import CompareRule
from orchestrator.spec.quantity import show_duration

T = TypeVar("T")
# A cold start imports pydantic and numpy from a slow disk at worst.
_START_DEADLINE_S = 60.0
_MOST_ANSWER_BYTES = 64 << 20
_ENVIRONMENT = {
    # One pair at a time on one processor; the others are the user's.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Keep freed arrays for the next piece: by default glibc gives them back to the system each
    # time, and taking them again costs three times what the arithmetic does.
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
}
_TOP = Path(orchestrator.__file__).resolve().parent.parent


class Confined:
    """Compares pairs in a child process; a context manager, whose end is the child's."""

    def __init__(self, bounds: Limits = limits.DEFAULT) -> None:
        self._limits = bounds
        self._scratch = tempfile.TemporaryDirectory(prefix="orch-diff-")
        self._child: _Child | None = None

    def __enter__(self) -> Confined:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self._scratch.cleanup()

    @property
    def scratch(self) -> Path:
        """A directory that lasts as long as this; the child has one inside it."""
        return Path(self._scratch.name)

    def compare(self, path: str, a: Blob, b: Blob, rule: CompareRule) -> Record:
        """One pair to its record; never raises for what the files hold."""
        request = {
            "path": path,
            "a": a.as_json(),
            "b": b.as_json(),
            "rule": rule.model_dump(),
        }
        try:
            return self._ask(request, Record.from_json)
        except Skipped as error:
            return _failed(path, a, b, rule, "skipped", str(error))
        except Unreadable as error:
            return _failed(path, a, b, rule, "unreadable", str(error))

    def overlay(self, a: Blob, b: Blob) -> bytes:
        """A PNG of image B with every pixel that differs from A in red.

        Raises:
            Unreadable: a side is no image, or the sizes differ.
            Skipped: it takes more than the limits allow, or a package is missing.
        """
        target = self.scratch / "overlay.png"
        request = {"overlay": str(target), "a": a.as_json(), "b": b.as_json()}
        problem = self._ask(request, _problem)
        if problem:
            raise Unreadable(problem)
        try:
            return target.read_bytes()
        finally:
            target.unlink()

    def _ask(self, request: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """One request to the child, started where there is none; its answer through a reader."""
        if self._child is None:
            self._child = _Child(self._limits, self.scratch)
        try:
            return read(json.loads(self._child.ask(request, self._limits.deadline_s)))
        except TimeoutError:
            self._end()
            words = f"took longer than {show_duration(self._limits.deadline_s)}"
            raise Skipped(words) from None
        except _Ended as ended:
            self._end()
            raise Unreadable(f"the reader {ended} on it") from ended
        except ValueError as error:
            self._end()
            raise Unreadable(f"the reader lost its mind: {error}") from error

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Ended(Exception):
    """The child is gone; the text says how."""


class _Child:
    """The running child, and a thread that waits for its answers."""

    def __init__(self, bounds: Limits, scratch: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._scratch = Path(tempfile.mkdtemp(prefix="child-", dir=scratch))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.diff.worker"],
            # `-m` looks into the working directory first; the user's may hold anything.
            cwd=_TOP,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # A reader may have a child of its own; both go together.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._answers: queue.Queue[bytes] = queue.Queue()
        listener = threading.Thread(
            target=_listen, args=(self._process.stdout, self._answers), daemon=True
        )
        listener.start()
        self._listener = listener
        setup = {"limits": asdict(bounds), "scratch": str(self._scratch)}
        try:
            ready = self.ask(setup, _START_DEADLINE_S)
        except (_Ended, TimeoutError) as error:
            said = self._said()
            self.end()
            raise InternalError(f"the reading process did not start: {error}\n{said}") from error
        assert ready == b"ready\n", ready

    def ask(self, request: dict[str, Any], deadline_s: float) -> bytes:
        """One line there, one line back.

        Raises:
            TimeoutError: no answer came within the deadline.
            _Ended: the child died.
        """
        try:
            self._input.write(json.dumps(request).encode("utf-8") + b"\n")
            self._input.flush()
            answer = self._answers.get(timeout=deadline_s)
        except queue.Empty:
            raise TimeoutError from None
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise _Ended(self._how_it_ended())
        return answer

    def end(self) -> None:
        """Kill the child and wait until it is gone."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):  # the whole group is gone already
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait(timeout=_START_DEADLINE_S)
        self._listener.join(timeout=_START_DEADLINE_S)
        with contextlib.suppress(OSError):  # half a request may be left, and nobody to read it
            self._input.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "gave a broken answer"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        last = self._said().strip().splitlines()[-1:]
        return f"failed with exit code {code}: {''.join(last)}"

    def _said(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4000))
        return self._errors.read().decode("utf-8", "replace")


def _listen(output: IO[bytes], answers: queue.Queue[bytes]) -> None:
    """Pass lines on until the child ends; an answer without its newline says that it did."""
    while True:
        line = output.readline(_MOST_ANSWER_BYTES)
        answers.put(line)
        if not line.endswith(b"\n"):
            return


def _problem(answer: dict[str, Any]) -> str:
    """Why there is no overlay; empty when there is one."""
    try:
        return str(answer["problem"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an answer: {error!r}") from error


def _failed(path: str, a: Blob, b: Blob, rule: CompareRule, status: Status, note: str) -> Record:
    return Record(path, rule.type or "unknown", status, note=note, size_a=a.size, size_b=b.size)
