"""A step's log: the raw bytes, without secrets, and never more than the disk was promised.

Up to half the limit goes to the file as it comes. After that the newest bytes go round through two
tail files of a quarter each; at the end they are put behind the head, with one line between that
says how much is missing.
"""

from __future__ import annotations

import os
import re
from typing import Sequence

MASK = b"[secret]"
_RECENT_BYTES = 8192


class LogFile:
    """One log while it is being written."""

    def __init__(self, path: str, limit_bytes: int, secrets: Sequence[bytes] = ()) -> None:
        self._path = path
        self._head_left = max(limit_bytes // 2, 1)
        self._tail_bytes = max(limit_bytes // 4, 1)
        self._masker = Masker(secrets)
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._tails = _Tails(path, self._tail_bytes)
        self.recent = b""
        self.total_bytes = 0

    def write(self, piece: bytes) -> None:
        self._keep(self._masker.mask(piece))

    def close(self) -> None:
        """Finish the file: nothing of the log is in memory or in tail files afterwards."""
        self._keep(self._masker.rest())
        dropped = self._tails.dropped_bytes
        if dropped:
            line = f"\n[orch: {dropped} bytes left out here; the log limit was reached]\n"
            self._file.write(line.encode("ascii"))
        for piece in self._tails.take():
            self._file.write(piece)
        self._file.close()

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self.total_bytes += len(piece)
        self.recent = (self.recent + piece)[-_RECENT_BYTES:]
        head, rest = piece[: self._head_left], piece[self._head_left :]
        if head:
            self._file.write(head)
            self._head_left -= len(head)
        if rest:
            self._tails.write(rest)


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


class _Tails:
    """The newest bytes beyond the head, in two files that take turns."""

    def __init__(self, path: str, size: int) -> None:
        self._names = (f"{path}.tail0", f"{path}.tail1")
        self._size = size
        self._current = 0
        self._held = [0, 0]
        self._files: list[int] = []
        self.dropped_bytes = 0

    def write(self, piece: bytes) -> None:
        if not self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._files = [os.open(name, flags, 0o644) for name in self._names]
        while piece:
            room = self._size - self._held[self._current]
            if room == 0:
                self._turn()
                continue
            written = os.write(self._files[self._current], piece[:room])
            self._held[self._current] += written
            piece = piece[written:]

    def take(self) -> list[bytes]:
        """The older part, then the newer one; the files are removed."""
        parts = []
        for which in (1 - self._current, self._current):
            if self._files:
                os.lseek(self._files[which], 0, os.SEEK_SET)
                parts.append(os.read(self._files[which], self._held[which]))
        for handle in self._files:
            os.close(handle)
        for name in self._names if self._files else ():
            os.unlink(name)
        self._files = []
        return parts

    def _turn(self) -> None:
        self._current = 1 - self._current
        self.dropped_bytes += self._held[self._current]
        os.ftruncate(self._files[self._current], 0)
        os.lseek(self._files[self._current], 0, os.SEEK_SET)
        self._held[self._current] = 0


def last_lines(recent: bytes, count: int) -> list[str]:
    """The last lines of a log for people: progress bars folded, escape codes left to the reader."""
    text = recent.decode("utf-8", "replace")
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    return [line[:500] for line in lines if line.strip()][-count:]
