"""Room on the disk that a run keeps back, so that a full one does not silence its supervisor.

Steps fill disks. What is kept back is given out in slices to the journal and the bundle alone, and
taken again as soon as there is room.
"""

from __future__ import annotations

import contextlib
import errno
import os

RESERVE_BYTES = 1 << 20
_SLICE_BYTES = 16 << 10


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of room, on the disk or in a quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """A file that holds nothing but its place; its size is what may still be given out."""

    def __init__(self, path: str) -> None:
        self._path = path

    def fill(self) -> bool:
        """Take what is lacking; False when the disk has not that much.

        Raises:
            OSError: it fails for another reason than want of room.
        """
        held = self.size
        if held >= RESERVE_BYTES:
            return True
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _allocate(handle, held, RESERVE_BYTES - held)
        except OSError as error:
            os.ftruncate(handle, held)
            if not is_full(error):
                raise
            return False
        finally:
            os.close(handle)
        return True

    def give(self, wanted_bytes: int) -> bool:
        """Set free at least so much, or whatever is left; False when nothing is."""
        held = self.size
        if held:
            slices = wanted_bytes // _SLICE_BYTES + 1
            os.truncate(self._path, max(held - slices * _SLICE_BYTES, 0))
        return held > 0

    def drop(self) -> None:
        """Give all of it back; the run needs it no more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    @property
    def size(self) -> int:
        """Bytes that are held; 0 where nothing could be taken."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0


def free_bytes(folder: str) -> int:
    """What the file system of a folder still takes, whatever a quota says."""
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def _allocate(handle: int, offset: int, count: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, offset, count)
        return
    # macOS has no such call; written bytes take their place as well.
    os.pwrite(handle, bytes(count), offset)
