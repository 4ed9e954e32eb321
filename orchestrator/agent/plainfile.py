"""Reading what a step left: a plain file, or nothing at all."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Sequence

_PIECE_BYTES = 1 << 20


def open_plain(path: str) -> io.FileIO:
    """Open a file for reading that is one; never what a link leads to, and never waiting.

    Raises:
        OSError: it is none, or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a plain file")
    return io.FileIO(handle)


def holds_any(path: str, secrets: Sequence[bytes]) -> bool:
    """Whether a file contains one of the values.

    Raises:
        OSError: it is no plain file, or cannot be read.
    """
    overlap = max((len(secret) for secret in secrets), default=1) - 1
    kept = b""
    with open_plain(path) as file:
        while True:
            piece = file.read(_PIECE_BYTES)
            if not piece:
                return False
            window = kept + piece
            if any(secret in window for secret in secrets):
                return True
            kept = window[-overlap:] if overlap else b""
