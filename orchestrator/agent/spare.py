"""Fresh checkouts made ahead of time.

Writing two thousand files takes longer than everything else before the first step. So when a run
has ended, its supervisor writes its tree out once more, untouched by any step, and the next run of
the same code takes that one and changes only what differs. Each file of a spare was verified as it
was written, and counts only while its inode, size and both time stamps are what they were then: the
system sets the change time, and nothing that writes to a file can set it back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from typing import Iterator, Tuple

from orchestrator.agent import checkout
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.checkout import Entry

MIN_FILES = 200
MAX_FILES = 50_000
MAX_BYTES = 1 << 30
MAX_SPARES = 3
_MIN_SHARED = 0.5

Stamp = Tuple[int, ...]


def claim(folder: str, wanted: list[Entry], target: str) -> set[bytes]:
    """Make `target` from the best spare: its untouched wanted files, and nothing else.

    Returns the paths that are there; none, and no target, when no spare fits.
    """
    if len(wanted) < MIN_FILES:
        return set()
    best, stamps = _best(folder, wanted)
    if not best:
        return set()
    claimed = tempfile.mkdtemp(prefix=".claimed-", dir=folder)
    try:
        # Whoever renames it has it; another run that wanted the same one finds nothing.
        os.rename(os.path.join(folder, best), os.path.join(claimed, "spare"))
        top = os.path.join(claimed, "spare", "tree")
        good = _sort_out(os.fsencode(top), stamps, {e.path: e for e in wanted})
        _remove_other_folders(os.fsencode(top), wanted)
        os.rename(top, target)
    except OSError:
        # Taken by another run, or not as it was left: the tree is written from the blobs then.
        return set()
    finally:
        shutil.rmtree(claimed, ignore_errors=True)
    return good


def make(folder: str, store: BlobStore, wanted: list[Entry]) -> bool:
    """Write a spare for the next run, and drop the oldest ones; False when it would not pay."""
    if not MIN_FILES <= len(wanted) <= MAX_FILES:
        return False
    if sum(store.size(entry.blob) for entry in wanted) > MAX_BYTES:
        return False
    os.makedirs(folder, exist_ok=True)
    fresh = tempfile.mkdtemp(prefix=".part-", dir=folder)
    try:
        top = os.fsencode(os.path.join(fresh, "tree"))
        checkout.make_folders(wanted, top)
        checkout.write(store, wanted, top)
        index = [
            [os.fsdecode(e.path), e.blob, e.mode, *_stamp(os.lstat(os.path.join(top, e.path)))]
            for e in wanted
        ]
        with open(os.path.join(fresh, "index.json"), "w", encoding="utf-8") as file:
            json.dump(index, file)
        os.rename(fresh, os.path.join(folder, os.path.basename(fresh)[len(".part-") :]))
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _drop_old(folder)
    return True


def _best(folder: str, wanted: list[Entry]) -> tuple[str, dict[bytes, tuple[Entry, Stamp]]]:
    """The spare that shares most files with the wanted tree, if it shares enough."""
    keys = {(entry.path, entry.blob, entry.mode) for entry in wanted}
    best, found, most = "", {}, int(_MIN_SHARED * len(wanted))
    for name in _spares(folder):
        stamps = _read_index(os.path.join(folder, name, "index.json"))
        shared = sum((e.path, e.blob, e.mode) in keys for e, _ in stamps.values())
        if shared > most:
            best, found, most = name, stamps, shared
    return best, found


def _read_index(path: str) -> dict[bytes, tuple[Entry, Stamp]]:
    """The entries of a spare with their stamps; none when its index is damaged."""
    found = {}
    try:
        with open(path, encoding="utf-8") as file:
            for name, blob, mode, *stamp in json.load(file):
                raw = os.fsencode(name)
                found[raw] = (Entry(mode, blob, raw), tuple(stamp))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    return found


def _sort_out(
    top: bytes, stamps: dict[bytes, tuple[Entry, Stamp]], wanted: dict[bytes, Entry]
) -> set[bytes]:
    """Remove everything that is not a wanted, untouched file; returns the paths that remain."""
    good: set[bytes] = set()
    for path, facts in _walk(top, b""):
        known = stamps.get(path)
        untouched = known is not None and known[1] == _stamp(facts)
        if untouched and known is not None and known[0] == wanted.get(path):
            good.add(path)
        else:
            os.unlink(os.path.join(top, path))
    return good


def _remove_other_folders(top: bytes, wanted: list[Entry]) -> None:
    folders = {b""}
    for entry in wanted:
        folder = os.path.dirname(entry.path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    for path, _, _ in os.walk(top, topdown=False):
        relative = b"" if path == top else path[len(top) + 1 :]
        if relative not in folders:
            os.rmdir(path)


def _walk(top: bytes, inside: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every path below the top that is not a directory, with its facts."""
    with os.scandir(os.path.join(top, inside)) as found:
        entries = list(found)
    for entry in entries:
        path = os.path.join(inside, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(top, path)
        else:
            yield path, entry.stat(follow_symlinks=False)


def _stamp(facts: os.stat_result) -> Stamp:
    return (
        facts.st_ino,
        facts.st_size,
        stat.S_IMODE(facts.st_mode),
        facts.st_mtime_ns,
        facts.st_ctime_ns,
    )


def _spares(folder: str) -> list[str]:
    """Names of whole spares, oldest first."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Another run may take it between the two looks.
                with contextlib.suppress(FileNotFoundError):
                    if not entry.name.startswith("."):
                        found.append((entry.stat().st_mtime, entry.name))
    except FileNotFoundError:
        return []
    return [name for _, name in sorted(found)]


def _drop_old(folder: str) -> None:
    for name in _spares(folder)[:-MAX_SPARES]:
        doomed = tempfile.mkdtemp(prefix=".gone-", dir=folder)
        # Another run that takes it, or drops it too, may have been faster.
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(folder, name), os.path.join(doomed, "spare"))
        shutil.rmtree(doomed)
