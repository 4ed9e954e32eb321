"""Bringing home the files a step wrote: those its globs name and it changed, and no others.

A file that an earlier step wrote is not evidence of this one, so only files whose inode changed
since the step began are taken. They are copied, because a later step may write over them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from dataclasses import dataclass, field
from typing import Sequence

from orchestrator.agent.manifest import Places
from orchestrator.agent.patterns import matches
from orchestrator.agent.plainfile import holds_any

MAX_FILES = 20_000
MAX_BYTES = 16 << 30
_TICK_DEADLINE_S = 0.1


@dataclass
class Collected:
    """What came of the globs of one step; `notes` says what did not come, and why."""

    files: int = 0
    size: int = 0
    notes: list[str] = field(default_factory=list)


def start_mark(folder: str) -> int:
    """The file system's own clock, in nanoseconds: what is changed from now on is not older.

    That clock ticks every few milliseconds. This waits for a tick, so that a change just before
    is older; a file system that ticks more rarely than that takes such a change for new.
    """
    path = os.path.join(folder, ".start")
    end = time.monotonic() + _TICK_DEADLINE_S
    first = mark = _touched_at(path)
    while mark == first and time.monotonic() < end:
        time.sleep(0.0005)
        mark = _touched_at(path)
    os.unlink(path)
    return mark


def _touched_at(path: str) -> int:
    with open(path, "wb"):
        os.utime(path)
    return os.stat(path).st_ctime_ns


def collect(
    patterns: Sequence[str], base: str, target: str, since_ns: int, secrets: Sequence[bytes]
) -> Collected:
    """Copy what the globs name below `base` into `target`.

    Links are not followed and not taken; neither are files that hold the value of a secret.
    """
    collector = _Collector(base, target, secrets)
    for pattern in patterns:
        older = fresh = 0
        for name in matches(pattern, base, collector.done.notes):
            facts = os.lstat(os.path.join(base, name))
            if stat.S_ISREG(facts.st_mode) and facts.st_ctime_ns < since_ns:
                older += 1
            elif stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
                fresh += 1
                collector.take(name, facts)
        if fresh == 0:
            plural = "" if older == 1 else "s"
            why = f"only {older} older file{plural}" if older else "no file"
            collector.done.notes.append(f"`collect: {pattern}` matches {why}")
    return collector.finish()


class _Collector:
    """Takes files one by one, each once, as long as a bundle has room."""

    def __init__(self, base: str, target: str, secrets: Sequence[bytes]) -> None:
        self.done = Collected()
        self._base = base
        self._target = target
        self._secrets = secrets
        self._places = Places()
        self._seen: set[str] = set()
        self._too_many = 0

    def take(self, name: str, facts: os.stat_result) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        problem = self._problem(name, facts)
        if problem:
            self.done.notes.append(problem)
        elif self.done.files == MAX_FILES:
            self._too_many += 1
        else:
            self._copy(name)

    def finish(self) -> Collected:
        if self._too_many:
            plural = "file matches" if self._too_many == 1 else "files match"
            self.done.notes.append(
                f"{self._too_many} more {plural}; only {MAX_FILES} of a step are collected"
            )
        return self.done

    def _problem(self, name: str, facts: os.stat_result) -> str:
        """Why a file is left on the host; empty when it is not."""
        if any(secret in os.fsencode(name) for secret in self._secrets):
            return "a file whose name holds the value of a secret is not collected"
        if stat.S_ISLNK(facts.st_mode):
            return f"`{name}` is a link and is not collected"
        if self.done.size + facts.st_size > MAX_BYTES:
            return f"`{name}` is left on the host: {facts.st_size} bytes are too many for a bundle"
        try:
            if self._secrets and holds_any(os.path.join(self._base, name), self._secrets):
                return f"`{name}` holds the value of a secret and is not collected"
        except OSError as error:
            return f"`{name}` could not be collected: {error.strerror}"
        return ""

    def _copy(self, name: str) -> None:
        place = os.path.join(self._target, self._places.take(name))
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copy2(os.path.join(self._base, name), place, follow_symlinks=False)
        except OSError as error:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            self.done.notes.append(f"`{name}` could not be collected: {error.strerror}")
            return
        self.done.files += 1
        self.done.size += os.path.getsize(place)
