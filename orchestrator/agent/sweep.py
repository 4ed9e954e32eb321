"""Cleaning up on the host: old runs, and file contents that no run refers to any more.

A run that is alive is never touched, and neither are contents that a push is about to use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from typing import Any, Iterator, Mapping

from orchestrator.agent import blobs, checkout
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.inspect import state_of
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.runlock import is_supervised


def sweep(link: Conversation, hello: Mapping[str, Any]) -> None:
    """Remove what is old; `dry_run` only says what would go."""
    root = Root.at(hello["root"])
    dry_run = bool(hello.get("dry_run"))
    removed = []
    for run in _old_runs(root, float(hello["older_than_s"])):
        removed.append(state_of(run))
        if not dry_run:
            _remove(run)
    stored = _sweep_blobs(root, int(hello["keep_bytes"]), dry_run)
    agents = _sweep_agents(root, float(hello["older_than_s"]), dry_run)
    link.tell("swept", runs=removed, agents=agents, **stored)


def _old_runs(root: Root, older_than_s: float) -> Iterator[RunFolder]:
    limit = time.time() - older_than_s
    for name in sorted(os.listdir(root.runs)):
        run = root.run(name.lstrip("."))
        if name.startswith(".") or not os.path.exists(run.journal):
            continue
        if os.stat(run.journal).st_mtime < limit and not is_supervised(run):
            yield run


def _remove(run: RunFolder) -> None:
    """Out of sight in one step, then gone: a half-removed run must not look like a run."""
    doomed = os.path.join(os.path.dirname(run.path), f".gone-{run.run_id}")
    os.replace(run.path, doomed)
    shutil.rmtree(doomed)


def _sweep_blobs(root: Root, keep_bytes: int, dry_run: bool) -> dict[str, int]:
    """Remove packs that no run refers to, those unused for longest first, until the rest fits."""
    handle = os.open(os.path.join(root.path, "blobs.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        kept = _referenced(root)
        found = sorted(blobs.packs(root.blobs), key=lambda pack: pack[:3])
        total = sum(size for _, size, _, _ in found)
        removed_bytes = removed = 0
        for _, size, name, inside in found:
            if total - removed_bytes <= keep_bytes:
                break
            if inside & kept:
                continue
            removed, removed_bytes = removed + 1, removed_bytes + size
            if not dry_run:
                os.unlink(os.path.join(root.blobs, name + blobs.INDEX))
                os.unlink(os.path.join(root.blobs, name + blobs.PACK))
        return {"packs_removed": removed, "blob_bytes_removed": removed_bytes, "blob_bytes": total}
    finally:
        os.close(handle)


def _referenced(root: Root) -> frozenset[str]:
    found: set[str] = set()
    for name in os.listdir(root.runs):
        try:
            with open(os.path.join(root.runs, name, "manifest"), "rb") as file:
                found.update(entry.blob for entry in checkout.entries(file.read()))
        except FileNotFoundError:
            continue
    return frozenset(found)


def _sweep_agents(root: Root, older_than_s: float, dry_run: bool) -> int:
    """Unpacked agents of earlier versions."""
    top = os.path.join(root.path, "agents")
    limit = time.time() - older_than_s
    own = os.path.abspath(__file__)
    removed = 0
    for entry in os.scandir(top):
        if own.startswith(entry.path + os.sep) or entry.stat().st_mtime > limit:
            continue
        removed += 1
        if not dry_run:
            shutil.rmtree(entry.path)
    return removed
