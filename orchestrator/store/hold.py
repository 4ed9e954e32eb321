"""One `orch` at a time works on a run's directory: who brings it home, or judges it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from orchestrator.errors import EvidenceError
from orchestrator.store.rundir import RunDir

_FILE = ".lock"
# Windows locks bytes, and nobody can read those meanwhile: one beyond what is written.
_LOCKED_BYTE = 1 << 20
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def held(folder: RunDir) -> Iterator[None]:
    """Hold a run's directory until the block, or this process, ends.

    Where the file system knows no locks, nobody is kept out.

    Raises:
        EvidenceError: another `orch` holds it, or it cannot be written.
    """
    with _locked(folder) as file:
        with contextlib.suppress(OSError):
            # A full disk holds as well; who it is, is not told then.
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), b"%d\n" % os.getpid())
        try:
            yield
        finally:
            # Still held: whoever waits for it sees that it is gone. Windows keeps what is open.
            with contextlib.suppress(OSError):
                (folder.path / _FILE).unlink()


def _locked(folder: RunDir) -> IO[bytes]:
    while True:
        file = _opened(folder)
        try:
            _lock(file)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                with file:
                    raise _taken(folder, file) from error
        if _is_there(folder, file):
            return file
        file.close()


def _is_there(folder: RunDir, file: IO[bytes]) -> bool:
    """Not when it was removed by whoever held it, between our opening and locking it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), (folder.path / _FILE).stat())
    except FileNotFoundError:
        return False


def _opened(folder: RunDir) -> IO[bytes]:
    # In a directory that was copied from elsewhere it may be a link to anything.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(folder.path / _FILE, flags, 0o644), "rb+", buffering=0)
    except OSError as error:
        raise EvidenceError(
            f"cannot write in {folder.path}: {error.strerror}",
            fix="mend that directory: what comes home is written there",
        ) from error


def _taken(folder: RunDir, file: IO[bytes]) -> EvidenceError:
    file.seek(0)
    number = file.read(20).decode("ascii", "replace").strip()
    who = f" (process {number})" if number.isdigit() else ""
    return EvidenceError(
        f"another orch{who} works on {folder.run_id} already",
        fix="wait until it has ended, or stop it with Ctrl-C: the run on the host goes on",
    )


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
