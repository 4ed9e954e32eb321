"""What a step recorded in `$ORCH_RESULTS`: counted, bounded, and freed of the values of secrets."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass, field
from typing import IO, Iterable, Iterator, List, Sequence

from orchestrator.agent.logfile import Masker
from orchestrator.agent.plainfile import holds_any, open_plain

# A result is a few hundred bytes, with a million samples some megabytes; a program that writes
# more than this is in a loop.
MAX_BYTES = 64 << 20
MAX_LINE_BYTES = 16 << 20
MAX_LINES = 1_000_000
_BUFFER_BYTES = 256 << 10


@dataclass
class Settled:
    """How many results are in the file now, and what was taken out of it."""

    count: int = 0
    problems: List[str] = field(default_factory=list)


def settle(path: str, secrets: Sequence[bytes]) -> Settled:
    """Cut a file of results at its bound, drop lines that are too long, mask values of secrets.

    No more than the bound is ever read, whatever a step made of the file.

    Raises:
        OSError: what lies there is no plain file, or the disk has no room for what is kept.
    """
    try:
        source = open_plain(path)
    except FileNotFoundError:
        return Settled()
    forms = [form for secret in secrets for form in _in_json(secret)]
    with io.BufferedReader(source, _BUFFER_BYTES) as file:
        lines = _Lines(file)
        count = _count(lines)
        if lines.problems or (forms and holds_any(path, forms)):
            count = _write_anew(path, file, forms)
    return Settled(count, lines.problems)


def _write_anew(path: str, source: IO[bytes], forms: Sequence[bytes]) -> int:
    part, masker = f"{path}.part", Masker(forms)
    try:
        with open(part, "wb") as target:
            for block in _blocks(_Lines(source)):
                target.write(masker.mask(block))
            target.write(masker.rest())
        with open(part, "rb") as written:
            count = _count(written)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return count


def _blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Many lines at once: to mask millions one by one would take minutes."""
    block: List[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= _BUFFER_BYTES:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)


def _count(lines: Iterable[bytes]) -> int:
    """Lines that end and are not blank."""
    return sum(line.endswith(b"\n") and bool(line.strip()) for line in lines)


class _Lines:
    """The lines of a file from its beginning, as far as it may be read; `problems` says what not.

    The last one may lack its end, where the file ends with it.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._size = os.fstat(source.fileno()).st_size
        self._left = min(self._size, MAX_BYTES)
        self._too_long = 0
        self._has_more = False

    def __iter__(self) -> Iterator[bytes]:
        self._source.seek(0)
        for _ in range(MAX_LINES):
            line = self._read(MAX_LINE_BYTES + 1)
            if not line:
                return
            if len(line) > MAX_LINE_BYTES:
                self._too_long += 1
                self._skip_rest_of(line)
            elif line.endswith(b"\n") or self._size <= MAX_BYTES:
                yield line
        self._has_more = self._left > 0

    @property
    def problems(self) -> List[str]:
        """Known when all of it has been read."""
        found = []
        if self._too_long:
            lines = "1 line is" if self._too_long == 1 else f"{self._too_long} lines are"
            found.append(f"{lines} longer than {MAX_LINE_BYTES} bytes and left out")
        if self._has_more:
            found.append(f"lines behind the first {MAX_LINES} are left out")
        elif self._size > MAX_BYTES:
            found.append(f"of {self._size} bytes those behind the first {MAX_BYTES} are left out")
        return found

    def _read(self, most: int) -> bytes:
        line = self._source.readline(min(self._left, most))
        # Somebody may be cutting the file while we read it.
        self._left = self._left - len(line) if line else 0
        return line

    def _skip_rest_of(self, line: bytes) -> None:
        while self._left and not line.endswith(b"\n"):
            line = self._read(_BUFFER_BYTES)


def _in_json(secret: bytes) -> list[bytes]:
    """A value as it is, and as it may stand inside the quotes of a JSON text."""
    text = secret.decode("utf-8", "surrogateescape")
    quoted = [json.dumps(text), json.dumps(text, ensure_ascii=False)]
    return [secret, *(form[1:-1].encode("utf-8", "surrogateescape") for form in quoted)]
