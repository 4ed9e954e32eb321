"""A file system of its own and of a few megabytes, to be filled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[None]:
    """Mount one; the test is skipped where none may be mounted."""
    if sys.platform != "linux":
        pytest.skip("a tmpfs needs Linux")
    place.mkdir()
    said = _mount(place, f"size={megabytes}m")
    if said:
        pytest.skip(f"no file system may be mounted here: {said}")
    try:
        yield
    finally:
        # Lazily: a supervisor may still be on its way out.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def grow(place: Path, megabytes: int) -> None:
    """Give it more room, with what is in it."""
    assert not _mount(place, f"remount,size={megabytes}m")


def _mount(place: Path, options: str) -> str:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or "mount failed" if done.returncode else ""
