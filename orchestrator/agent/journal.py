"""The journal: what happened on the host, one JSON object a line, the only truth about a run.

Only the supervisor writes it. A reader may find half a line at its end, while it is being written
or after a crash of the host; that half line never counts.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Iterator, Optional

from orchestrator.agent.reserve import Reserve, is_full

FILE_NAME = "journal.jsonl"

# Events.
RUN_STARTED = "run_started"
CACHES = "caches"
ACTIVATED = "activated"
ENVIRONMENT = "environment"
STEP_STARTED = "step_started"
STEP_ENDED = "step_ended"
NOTE = "note"
RUN_ENDED = "run_ended"

# States of a job. The first four are the host's word; `host_lost` is said by whoever finds that
# the supervisor died without a last word, and `not_started` of what it never came to.
PASSED = "passed"
FAILED = "failed"
TIMED_OUT = "timed_out"
SKIPPED = "skipped"
CANCELLED = "cancelled"
HOST_LOST = "host_lost"
NOT_STARTED = "not_started"
STATES = (PASSED, FAILED, TIMED_OUT, SKIPPED, CANCELLED, HOST_LOST, NOT_STARTED)


class Journal:
    """Appends events; a line is there whole or not at all."""

    def __init__(self, path: str, first_number: int = 0, reserve: Optional[Reserve] = None) -> None:
        """Open a journal for writing; `reserve` is what it may draw on when the disk is full."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._number = first_number
        self._reserve = reserve
        self._start = time.monotonic()
        self._turn = threading.Lock()

    def write(self, event: str, **facts: Any) -> dict[str, Any]:
        """Append one event and return it.

        Every event has its number `n`, the wall clock `at` (RFC 3339, UTC) and `elapsed_s`, the
        monotonic seconds since the journal was opened.

        Raises:
            OSError: the disk is full and the reserve empty; what was written of the line is taken
                back.
        """
        with self._turn:
            record = {
                "n": self._number,
                "at": now(),
                "elapsed_s": round(time.monotonic() - self._start, 4),
                "event": event,
                **facts,
            }
            line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            self._append_somehow(line.encode("utf-8", "backslashreplace") + b"\n")
            self._number += 1
            return record

    def _append_somehow(self, line: bytes) -> None:
        while True:
            try:
                return self._append(line)
            except OSError as error:
                if not (is_full(error) and self._reserve and self._reserve.give(len(line))):
                    raise

    def _append(self, line: bytes) -> None:
        end = os.fstat(self._file).st_size
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, end)
            raise

    def sync(self) -> None:
        """Bring what was written to the disk itself."""
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


class LineReader:
    """Events from journal bytes that arrive in pieces.

    Args:
        lenient: let a line that cannot be read be a note that says so; for who only listens.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self._half = b""
        self._lenient = lenient

    def feed(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The events that this piece completes.

        Raises:
            ValueError: a whole line is not a JSON object with an `event`; not when lenient.
        """
        *lines, self._half = (self._half + piece).split(b"\n")
        for line in lines:
            try:
                yield _event(line)
            except ValueError as error:
                if not self._lenient:
                    raise
                text = f"a line of the journal cannot be read: {error}"
                yield {"event": NOTE, "level": "warning", "text": text}


def _event(line: bytes) -> dict[str, Any]:
    record = _parsed(line)
    if not isinstance(record, dict) or "event" not in record:
        raise ValueError("a journal line without an event")
    return record


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("a journal line is nested too deeply") from error


def read(path: str) -> list[dict[str, Any]]:
    """All whole events of a journal file.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is damaged.
    """
    with open(path, "rb") as file:
        return list(LineReader().feed(file.read()))


def now() -> str:
    """The wall clock as RFC 3339 in UTC, with milliseconds."""
    seconds = time.time()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{text}.{int(seconds * 1000) % 1000:03d}Z"
