"""Cleaning up on the host: old runs, and file contents that no run refers to any more.

A run that is alive is never touched, and neither are contents that a push is about to use. One
that never came home is touched only on an express order.
"""

from __future__ import annotations

import os
import time
from typing import Any, Iterator, Mapping

from orchestrator.agent import blobs, checkout, removal, runlock, storelock
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.inspect import state_of
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.rescue import leave_nobody
from orchestrator.agent.wholeness import facts_of

_STORE_DEADLINE_S = 5.0
# What is younger may be in the hands of somebody who has not locked it yet.
_LITTER_S = 60.0


def sweep(link: Conversation, hello: Mapping[str, Any]) -> None:
    """Remove what is old; `dry_run` only says what would go, and `failed` what could not.

    A run that nobody has brought home is `kept`, and one of which files did not fit into its
    bundle is `left`, unless `unfetched` is asked for.
    """
    root = Root.at(hello["root"])
    limit = time.time() - float(hello["older_than_s"])
    broom = _Broom(bool(hello.get("dry_run")), unfetched=bool(hello.get("unfetched")))
    runs = [state for run in _old_runs(root, limit) for state in broom.take_run(run)]
    for path in _litter(root, limit):
        broom.take(path)
    spares = sum(broom.take(path) for path in _old_spares(root, limit))
    agents = sum(broom.take(path) for path in _old_agents(root, limit))
    stored = _sweep_store(root, int(hello["keep_bytes"]), broom)
    link.tell(
        "swept",
        runs=runs,
        kept=broom.kept,
        left=broom.left,
        spares=spares,
        agents=agents,
        failed=broom.failed,
        **stored,
    )


class _Broom:
    """Removes, or only counts; what cannot be removed stops nothing."""

    def __init__(self, dry_run: bool, *, unfetched: bool) -> None:
        self._dry_run = dry_run
        self._unfetched = unfetched
        self.kept: list[str] = []
        self.left: list[str] = []
        self.failed: list[str] = []

    def take(self, path: str) -> bool:
        """Whether the file or directory is gone now, or would be."""
        try:
            if not self._dry_run:
                _remove(path)
        except OSError as error:
            self.failed.append(f"{path}: {error.strerror} ({error.filename})")
            return False
        return True

    def take_run(self, run: RunFolder) -> list[dict[str, Any]]:
        """The state of the run that is gone now; empty when it stays.

        It stays while somebody supervises it, and while this is the only copy of what it did, or
        of a part of that.
        """
        try:
            lock = runlock.hold(run)
        except (BlockingIOError, FileNotFoundError):
            return []
        try:
            if not os.path.exists(run.path):
                # Another sweep had the lock, and has removed it.
                return []
            if not (self._unfetched or os.path.exists(run.sent_home)):
                self.kept.append(run.run_id)
                return []
            if not self._unfetched and (facts_of(run) or {}).get("left_behind"):
                self.left.append(run.run_id)
                return []
            # Its lock is free, so this says that it is not alive.
            state = {**state_of(run), "alive": False}
            return [state] if self._end(run) and self.take(run.path) else []
        finally:
            os.close(lock)

    def _end(self, run: RunFolder) -> bool:
        """Nothing of a run outlives it: its directory alone tells where its processes are."""
        try:
            if not self._dry_run:
                leave_nobody(run)
        except OSError as error:
            self.failed.append(f"{run.path}: its processes cannot be ended: {error.strerror}")
            return False
        return True


def _remove(path: str) -> None:
    if os.path.basename(path).startswith(removal.DOOMED):
        removal.clear(path)
    elif os.path.isdir(path):
        removal.remove(path)
    else:
        os.unlink(path)


# -- runs


def _old_runs(root: Root, limit: float) -> Iterator[RunFolder]:
    for run in _run_folders(root):
        if _modified_at(run.journal, default=limit) < limit:
            yield run


def _litter(root: Root, limit: float) -> Iterator[str]:
    """What was left half pushed or half removed by an agent that was killed."""
    for entry in _entries(root.runs):
        if entry.name.startswith(removal.DOOMED):
            yield entry.path
    since = _litter_limit(limit)
    for run in _run_folders(root):
        old = _modified_at(run.path, default=since) < since
        if old and not os.path.exists(run.journal) and not runlock.is_supervised(run):
            yield run.path


def _run_folders(root: Root) -> list[RunFolder]:
    """The directories that are runs, or were to become ones; others are the user's."""
    found = []
    for entry in _entries(root.runs):
        try:
            run = root.run(entry.name)
        except ValueError:
            continue
        if os.path.exists(run.plan) or os.path.exists(run.journal):
            found.append(run)
    return found


def _any_is_alive(root: Root) -> bool:
    return any(runlock.is_supervised(run) for run in _run_folders(root))


# -- the store


def _sweep_store(root: Root, keep_bytes: int, broom: _Broom) -> dict[str, Any]:
    """Remove packs that no run refers to, those unused for longest first, until the rest fits."""
    try:
        with storelock.alone(root, _STORE_DEADLINE_S):
            for path in blobs.torsos(root.blobs):
                broom.take(path)
            return {"busy": False, **_sweep_packs(root, keep_bytes, broom)}
    except storelock.StoreBusy:
        return {"busy": True, "packs_removed": 0, "blob_bytes_removed": 0, "blob_bytes": 0}


def _sweep_packs(root: Root, keep_bytes: int, broom: _Broom) -> dict[str, int]:
    kept = _referenced(root)
    found = sorted(blobs.packs(root.blobs), key=lambda pack: pack[:3])
    total = sum(size for _, size, _, _ in found)
    removed_bytes = removed = 0
    for _, size, name, inside in found:
        if total - removed_bytes <= keep_bytes:
            break
        if inside & kept:
            continue
        if all(broom.take(path) for path in blobs.files_of(root.blobs, name)):
            removed, removed_bytes = removed + 1, removed_bytes + size
    return {"packs_removed": removed, "blob_bytes_removed": removed_bytes, "blob_bytes": total}


def _referenced(root: Root) -> frozenset[str]:
    """Blobs of every run that is here; a run whose manifest is damaged can name none."""
    found: set[str] = set()
    for run in _run_folders(root):
        try:
            with open(run.manifest, "rb") as file:
                found.update(entry.blob for entry in checkout.entries(file.read()))
        except (FileNotFoundError, checkout.TreeError):
            continue
    return frozenset(found)


# -- what was made ahead, and what was left behind


def _old_spares(root: Root, limit: float) -> Iterator[str]:
    """Checkouts that nobody took, and what was left of those being made or taken."""
    for entry in _entries(root.spares):
        since = _litter_limit(limit) if entry.name.startswith(".") else limit
        if _modified_at(entry.path, default=since) < since:
            yield entry.path


def _old_agents(root: Root, limit: float) -> list[str]:
    """Unpacked agents of earlier versions; none while a run may still load modules from one."""
    if _any_is_alive(root):
        return []
    own = os.path.abspath(__file__)
    return [
        entry.path
        for entry in _entries(os.path.join(root.path, "agents"))
        if _modified_at(entry.path, default=limit) < limit
        and not own.startswith(entry.path + os.sep)
    ]


def _litter_limit(limit: float) -> float:
    return min(limit, time.time() - _LITTER_S)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _modified_at(path: str, default: float) -> float:
    """Seconds since the epoch; the default for what is not there."""
    try:
        return os.lstat(path).st_mtime
    except FileNotFoundError:
        return default
