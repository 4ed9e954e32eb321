"""What a snapshot holds, and the proof that taking it touched nothing of the user's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.source import snapshot, tree
from orchestrator.source.snapshot import Snapshot
from tests.conftest import Project

MAX_BYTES = 200_000_000
POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def take(project: Project, *, max_new_bytes: int = MAX_BYTES, include: tuple[str, ...] = ()):
    """A snapshot of the project, after which nothing of the user's is different."""
    with untouched(project.path):
        return snapshot.take(project.path, include=include, max_new_bytes=max_new_bytes)


def files(taken: Snapshot) -> dict[str, bytes]:
    """Path and content of every file of the tree."""
    return {entry.path: content(taken, entry.blob) for entry in tree.entries(taken.manifest)}


def modes(taken: Snapshot) -> dict[str, str]:
    return {entry.path: entry.mode for entry in tree.entries(taken.manifest)}


def content(taken: Snapshot, blob: str) -> bytes:
    return subprocess.run(
        ["git", "cat-file", "blob", blob],
        cwd=taken.repository.top,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout


@contextmanager
def untouched(top: Path) -> Iterator[None]:
    """Fail when the index, the stash, a file, or the list of files is another one afterwards."""
    before = state(top)
    yield
    after = state(top)
    assert after.keys() == before.keys()
    changed = [name for name in before if before[name] != after[name]]
    assert changed == []


def state(top: Path) -> dict[str, object]:
    """Every file below a directory but git's objects and our own references."""
    found: dict[str, object] = {}
    for folder, inner, names in os.walk(top):
        if folder.endswith("/objects"):
            inner.clear()
            continue
        for name in [*names, *inner]:
            path = Path(folder, name)
            facts = path.lstat()
            if path.is_symlink():
                found[str(path)] = path.readlink()
            elif path.is_file():
                # git itself refreshes the time of a shared index whenever it reads it.
                when = 0 if name.startswith("sharedindex.") else facts.st_mtime_ns
                found[str(path)] = (facts.st_mode, when, path.read_bytes())
    return found
