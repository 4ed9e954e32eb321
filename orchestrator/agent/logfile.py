"""A step's log: the raw bytes, without secrets, and never more than the disk was promised.

Up to half the limit goes to the file as it comes. After that the newest bytes go round through two
tail files of a quarter each; at the end they are put behind the head, with one line between that
says how much is missing.
"""

from __future__ import annotations

import os
import re
from typing import List, Sequence, Tuple

MASK = b"[secret]"
_RECENT_BYTES = 8192
_PIECE_BYTES = 1 << 20


class LogFile:
    """One log while it is being written.

    A disk that takes no more does not stop the step: what is lost is counted, `problem` says why.
    """

    def __init__(self, path: str, limit_bytes: int, secrets: Sequence[bytes] = ()) -> None:
        self._masker = Masker(secrets)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._head_left = max(limit_bytes // 2, 1)
        self._tails = _Tails(path, max(limit_bytes // 4, 1))
        self._lost_bytes = 0
        self.problem = ""
        self.recent = b""
        self.total_bytes = 0

    def write(self, piece: bytes) -> None:
        self._keep(self._masker.mask(piece))

    def close(self) -> None:
        """Finish the file: the newest bytes behind the head, and no tail files any more."""
        self._keep(self._masker.rest())
        self._tell_what_was_lost()
        try:
            self._tails.append_to(self._file)
        except OSError as error:
            # The tail files stay where they are; they are evidence too.
            self.problem = str(error.strerror)
        self._tails.close()
        os.close(self._file)

    def _keep(self, piece: bytes) -> None:
        self.total_bytes += len(piece)
        self.recent = (self.recent + piece)[-_RECENT_BYTES:]
        self._tell_what_was_lost()
        if self._lost_bytes:
            self._lost_bytes += len(piece)
        else:
            self._lost_bytes = len(piece) - self._put(piece)

    def _tell_what_was_lost(self) -> None:
        if self._lost_bytes:
            line = own_line(f"{self._lost_bytes} bytes could not be written: {self.problem}")
            if self._put(line) == len(line):
                self._lost_bytes = 0

    def _put(self, piece: bytes) -> int:
        """Write to the head, then to the tails; returns how many bytes the disk took."""
        left = memoryview(piece)
        try:
            while left:
                if self._head_left:
                    count = os.write(self._file, left[: self._head_left])
                    self._head_left -= count
                else:
                    count = self._tails.write(left)
                left = left[count:]
        except OSError as error:
            self.problem = str(error.strerror)
        return len(piece) - len(left)


def own_line(text: str) -> bytes:
    """A line of ours inside somebody else's text."""
    return f"\n[orch: {text}]\n".encode()


class Masker:
    """Replaces secret values in a stream, wherever it is cut.

    Of the values that could be meant, the leftmost counts, and of those the longest.
    """

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._secrets = sorted({s for s in secrets if s}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._overlap = max((len(s) for s in self._secrets), default=1) - 1
        self._held = b""

    def mask(self, piece: bytes) -> bytes:
        """What may be let go of the stream so far."""
        if not self._secrets:
            return piece
        text = self._held + piece
        unsure = self._unsure(text, 0)
        out, place = [], 0
        for match in self._pattern.finditer(text):
            if match.start() >= unsure:
                break
            out += [text[place : match.start()], MASK]
            place = match.end()
            if unsure < place:
                unsure = self._unsure(text, place)
        self._held = text[unsure:]
        return b"".join([*out, text[place:unsure]])

    def rest(self) -> bytes:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, b""
        return self._pattern.sub(MASK, held) if held else b""

    def _unsure(self, text: bytes, place: int) -> int:
        """Where the first thing begins that could become a value, or a longer one."""
        for start in range(max(len(text) - self._overlap, place), len(text)):
            tail = text[start:]
            if any(len(tail) < len(s) and s.startswith(tail) for s in self._secrets):
                return start
        return len(text)


def tail_files(path: str) -> List[str]:
    """Files with the newest bytes of a log that has outgrown its head, older first."""
    found = []
    for name in _tail_names(path):
        try:
            state = os.stat(name)
        except FileNotFoundError:
            continue
        if state.st_size:
            # The older one is full, the newer one seldom; a clock tick may have seen both.
            found.append((-state.st_size, state.st_mtime_ns, name))
    return [name for _, _, name in sorted(found)]


def _tail_names(path: str) -> Tuple[str, str]:
    return f"{path}.tail0", f"{path}.tail1"


class _Tails:
    """The newest bytes beyond the head, in two files that take turns."""

    def __init__(self, path: str, size: int) -> None:
        self._names = _tail_names(path)
        self._size = size
        self._current = 0
        self._held = [0, 0]
        self._files: list[int] = []
        self._dropped_bytes = 0

    def write(self, piece: memoryview) -> int:
        """Write some of it; returns how many bytes."""
        if not self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._files = [os.open(name, flags, 0o644) for name in self._names]
        if self._held[self._current] == self._size:
            self._turn()
        room = self._size - self._held[self._current]
        written = os.write(self._files[self._current], piece[:room])
        self._held[self._current] += written
        return written

    def append_to(self, target: int) -> None:
        """Put a line about the gap, the older part and the newer one behind a file."""
        if self._dropped_bytes:
            text = f"{self._dropped_bytes} bytes left out here; the log limit was reached"
            _write_all(target, own_line(text))
        for which in (1 - self._current, self._current):
            for offset in range(0, self._held[which], _PIECE_BYTES):
                _write_all(target, os.pread(self._files[which], _PIECE_BYTES, offset))
        for name in self._names if self._files else ():
            os.unlink(name)

    def close(self) -> None:
        for handle in self._files:
            os.close(handle)
        self._files = []

    def _turn(self) -> None:
        self._current = 1 - self._current
        self._dropped_bytes += self._held[self._current]
        os.ftruncate(self._files[self._current], 0)
        os.lseek(self._files[self._current], 0, os.SEEK_SET)
        self._held[self._current] = 0


def _write_all(target: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(target, left) :]


def last_lines(recent: bytes, count: int) -> list[str]:
    """The last lines of a log for people: progress bars folded, escape codes left to the reader."""
    text = recent.decode("utf-8", "replace")
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    return [line[:500] for line in lines if line.strip()][-count:]
