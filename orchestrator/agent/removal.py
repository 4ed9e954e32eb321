"""Removing a directory of ours for good: out of sight in one step, then gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

DOOMED = ".gone-"
_ATTEMPTS = 3
# Each time somebody else has removed something too, so it gets on.
_MEETINGS = 1000


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
    denied = met = 0
    while os.path.lexists(path):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            met += 1
            if met > _MEETINGS:
                raise
        except PermissionError:
            denied += 1
            if denied > _ATTEMPTS:
                raise
            _open_up(path)


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
