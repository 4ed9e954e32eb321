"""Removing a directory of ours for good: out of sight in one step, then gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

DOOMED = ".gone-"
_ATTEMPTS = 3


def remove(path: str) -> None:
    """Remove a directory whose half must not be taken for the whole; one that is gone is fine.

    Raises:
        OSError: it, or something in it, cannot be removed.
    """
    doomed = tempfile.mkdtemp(prefix=DOOMED, dir=os.path.dirname(path))
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, os.path.join(doomed, os.path.basename(path)))
    clear(doomed)


def clear(path: str) -> None:
    """Remove a directory that nobody looks for any more.

    Raises:
        OSError: it, or something in it, cannot be removed.
    """
    for _ in range(_ATTEMPTS):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            # Somebody else clears it too.
            if not os.path.lexists(path):
                return
        except PermissionError:
            _open_up(path)
        else:
            return
    shutil.rmtree(path)


def _open_up(top: str) -> None:
    """Steps leave directories that nobody may write into, as Go keeps its modules."""
    with contextlib.suppress(PermissionError):
        os.chmod(top, 0o700)
    for folder, inner, _ in os.walk(top):
        for name in inner:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with contextlib.suppress(PermissionError):
                    os.chmod(path, 0o700)
