"""One file to be read, wherever it lies: on disk, or as a member of a zip."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from orchestrator.diff.refusal import Skipped, Unreadable

PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Blob:
    """The content of one artifact.

    `path` is the file, or the zip that holds it as `member`. `size` is what its container says;
    reading never yields more.
    """

    path: Path
    size: int
    member: str | None = None
    scratch: Path | None = field(default=None, compare=False)
    """A directory for a copy, where a reader has to jump about in a packed member."""

    def open(self) -> IO[bytes]:
        """The content as a stream.

        Raises:
            Unreadable: it is no plain file, is gone, or its container is damaged.
        """
        if self.member is None:
            return open_plain(self.path)
        raw = open_plain(self.path)
        try:
            return cast("IO[bytes]", _Member(raw, self.member, self.size))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, KeyError) as error:
            raw.close()
            raise Unreadable(f"the zip that holds it is damaged: {error}") from error

    def head(self, count: int) -> bytes:
        """Its first bytes, at most `count`."""
        with self.open() as file:
            return file.read(count)

    def read(self, most: int) -> bytes:
        """The whole content.

        Raises:
            Skipped: it has more than `most` bytes.
        """
        if self.size > most:
            raise Skipped(
                f"{self.size} bytes are more than the {most} that this type is read up to"
            )
        with self.open() as file:
            content = file.read(most + 1)
        if len(content) != self.size:
            raise Unreadable(f"{len(content)} bytes could be read, {self.size} were announced")
        return content

    def on_disk(self) -> Path:
        """The path of a plain file with this content; a member of a zip is copied for that."""
        if self.member is None:
            return self.path
        handle, name = tempfile.mkstemp(prefix="member-", dir=self.scratch)
        with os.fdopen(handle, "wb") as target, self.open() as source:
            shutil.copyfileobj(source, target, PIECE_BYTES)
        return Path(name)

    def as_json(self) -> dict[str, Any]:
        return {"path": str(self.path.absolute()), "size": self.size, "member": self.member}

    @classmethod
    def from_json(cls, shown: dict[str, Any], scratch: Path) -> Blob:
        return cls(Path(shown["path"]), shown["size"], shown["member"], scratch)


class _Member(io.RawIOBase):
    """A member of a zip as a stream whose every failure is `Unreadable`."""

    def __init__(self, raw: IO[bytes], name: str, size: int) -> None:
        self._raw = raw
        self._source = zipfile.ZipFile(raw).open(name)  # noqa: SIM115 - closed by `close`
        self._size = size
        self._left = size

    def tell(self) -> int:
        return self._size - self._left

    def readable(self) -> bool:
        return True

    def read(self, count: int | None = -1) -> bytes:
        wanted = self._left if count is None or count < 0 else min(count, self._left)
        pieces = []
        try:
            while wanted > 0 and (piece := self._source.read(wanted)):
                pieces.append(piece)
                wanted -= len(piece)
                self._left -= len(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise Unreadable(f"its zip member is damaged: {error}") from error
        return b"".join(pieces)

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
            self._raw.close()
        super().close()


def open_plain(path: Path) -> IO[bytes]:
    """A regular file, and nothing else: no link at its end, no pipe that would never answer.

    Raises:
        Unreadable: it is something else, or cannot be opened.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        reason = "a link, which is not followed" if path.is_symlink() else error.strerror
        raise Unreadable(f"cannot be opened: {reason}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unreadable("is not a plain file")
    return os.fdopen(handle, "rb")


def identical(a: Blob, b: Blob) -> bool:
    """Whether two blobs have the same bytes; reads until the first difference.

    Raises:
        Unreadable: one of them cannot be read.
    """
    if a.size != b.size:
        return False
    with a.open() as first, b.open() as second:
        while True:
            one, two = first.read(PIECE_BYTES), second.read(PIECE_BYTES)
            if one != two:
                return False
            if not one:
                return True
