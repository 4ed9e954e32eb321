"""Reading a log of any size in windows of lines, and searching it, without loading it.

The places of line starts are kept for one line in a few thousand: the count of newlines up to each
block of the file. A window then costs a block or two, wherever it lies.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from orchestrator.report.words import harmless

BLOCK_BYTES = 256 << 10
MAX_LINES = 1000
MAX_LINE_BYTES = 4000
MAX_HITS = 500
SEARCH_S = 5.0


@dataclass(frozen=True)
class Line:
    """A line, from 1, as far as it can be shown."""

    number: int
    text: str
    cut: bool = False


@dataclass(frozen=True)
class Hits:
    """Lines that hold the words. `complete` is False when there were too many or it took long."""

    lines: list[Line]
    complete: bool


class Log:
    """One file that no longer grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._newlines = [0]
        ends_open = False
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                self._newlines.append(self._newlines[-1] + block.count(b"\n"))
                ends_open = not block.endswith(b"\n")
        self.lines = self._newlines[-1] + (1 if ends_open else 0)

    def window(self, first: int, count: int) -> list[Line]:
        """Lines from `first` (from 1) on; fewer at the end."""
        first, count = max(first, 1), max(min(count, MAX_LINES), 0)
        with self.path.open("rb") as file:
            file.seek(self._start_of(first))
            numbers = range(first, min(first + count, self.lines + 1))
            return [_read_line(file, number) for number in numbers]

    def search(self, words: str, first: int = 1, deadline_s: float = SEARCH_S) -> Hits:
        """Lines that hold `words`, whatever the case of ASCII letters, from line `first` on."""
        wanted = words.encode("utf-8").lower()
        if not wanted:
            return Hits([], True)
        until = time.monotonic() + deadline_s
        numbers: list[int] = []
        for found in self._hits_by_block(wanted, max(first, 1)):
            numbers += [number for number in found if number not in numbers[-1:]]
            if len(numbers) > MAX_HITS or time.monotonic() > until:
                return Hits(self._told(numbers[:MAX_HITS]), False)
        return Hits(self._told(numbers), True)

    def _hits_by_block(self, wanted: bytes, first: int) -> Iterator[list[int]]:
        """Numbers of lines with a hit; blocks overlap by one byte less than what is sought."""
        number, kept = first, b""
        with self.path.open("rb") as file:
            file.seek(self._start_of(first))
            while block := file.read(BLOCK_BYTES):
                text = kept + block.lower()
                found: list[int] = []
                counted, at = 0, text.find(wanted)
                while at >= 0 and len(found) <= MAX_HITS:
                    number += text.count(b"\n", counted, at)
                    counted = at
                    found.append(number)
                    line_end = text.find(b"\n", at)
                    at = text.find(wanted, line_end) if line_end >= 0 else -1
                yield found
                rest = max(len(text) - len(wanted) + 1, counted)
                number += text.count(b"\n", counted, rest)
                kept = text[rest:]

    def _told(self, numbers: list[int]) -> list[Line]:
        return [line for number in numbers for line in self.window(number, 1)]

    def _start_of(self, line: int) -> int:
        """The place of a line's first byte; the end of the file beyond its last line."""
        newline = line - 1
        if newline <= 0:
            return 0
        if newline > self._newlines[-1]:
            return self.size
        block = bisect.bisect_left(self._newlines, newline) - 1
        with self.path.open("rb") as file:
            file.seek(block * BLOCK_BYTES)
            data = file.read(BLOCK_BYTES)
        at = -1
        for _ in range(newline - self._newlines[block]):
            at = data.index(b"\n", at + 1)
        return block * BLOCK_BYTES + at + 1


def _read_line(file: BinaryIO, number: int) -> Line:
    """The next line, without its end where it is too long to show."""
    content = file.readline(MAX_LINE_BYTES)
    rest = content
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(BLOCK_BYTES)
    is_cut = len(content) == MAX_LINE_BYTES and not content.endswith(b"\n")
    return Line(number, harmless(content.decode("utf-8", "replace").rstrip("\r\n")), is_cut)
