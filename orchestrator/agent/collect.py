"""Bringing home the files a step wrote: those its globs name and it changed, and no others.

A file that an earlier step wrote is not evidence of this one, so only files whose inode changed
since the step began are taken. They are copied, because a later step may write over them.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
from dataclasses import dataclass, field
from typing import Iterator, Sequence

from orchestrator.agent.manifest import portable_path

MAX_FILES = 20_000
# A file system stamps changes with the time of the last clock tick, up to 10 ms ago.
_TICK_NS = 20_000_000


@dataclass
class Collected:
    """What came of the globs of one job."""

    files: int = 0
    size: int = 0
    notes: list[str] = field(default_factory=list)


def start_mark(folder: str) -> int:
    """The file system's own clock, in nanoseconds: what is changed from now on is newer."""
    path = os.path.join(folder, ".start")
    with open(path, "wb"):
        mark = os.stat(path).st_ctime_ns
    os.unlink(path)
    return mark - _TICK_NS


def collect(
    patterns: Sequence[str], base: str, target: str, since_ns: int, secrets: Sequence[bytes]
) -> Collected:
    """Copy what the globs name below `base` into `target`.

    Links are not followed and not taken; neither are files that hold the value of a secret.
    """
    done = Collected()
    seen: set[str] = set()
    for pattern in patterns:
        matched = fresh = 0
        for name in _matches(pattern, base):
            path = os.path.join(base, name)
            facts = os.lstat(path)
            if stat.S_ISLNK(facts.st_mode):
                done.notes.append(f"`{name}` is a link and is not collected")
                continue
            if not stat.S_ISREG(facts.st_mode):
                continue
            matched += 1
            if facts.st_ctime_ns < since_ns:
                continue
            fresh += 1
            if name not in seen and done.files < MAX_FILES:
                seen.add(name)
                _take(path, name, target, secrets, done)
        if fresh == 0:
            why = f"only {matched} older files" if matched else "no file"
            done.notes.append(f"`collect: {pattern}` matches {why}")
    if done.files >= MAX_FILES:
        done.notes.append(f"more than {MAX_FILES} files match; the rest is left on the host")
    return done


def _matches(pattern: str, base: str) -> Iterator[str]:
    prefix = len(base) + 1
    for path in glob.iglob(os.path.join(glob.escape(base), pattern), recursive=True):
        yield path[prefix:]


def _take(path: str, name: str, target: str, secrets: Sequence[bytes], done: Collected) -> None:
    if secrets and holds_any(path, secrets):
        done.notes.append(f"`{name}` holds the value of a secret and is not collected")
        return
    place = os.path.join(target, portable_path(name))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    shutil.copy2(path, place, follow_symlinks=False)
    done.files += 1
    done.size += os.path.getsize(place)


def holds_any(path: str, secrets: Sequence[bytes]) -> bool:
    """Whether a file contains one of the values."""
    overlap = max(len(secret) for secret in secrets) - 1
    kept = b""
    with open(path, "rb") as file:
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return False
            window = kept + piece
            if any(secret in window for secret in secrets):
                return True
            kept = window[-overlap:] if overlap else b""
