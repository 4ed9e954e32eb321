"""A bundle that has arrived is put in its place, whatever an earlier visit left half done."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import EvidenceError
from orchestrator.store import check, unpack
from orchestrator.store.record import Bundle
from orchestrator.store.rundir import RunDir

_FRESH = ".evidence-arrived"


@dataclass(frozen=True)
class Arrival:
    """How many files are in place now, and where what lay there before is kept."""

    files: int
    aside: Path | None = None


def _prepare(folder: RunDir) -> None:
    """Let a bundle that was in its place before the run was called home count as what arrived."""
    if folder.bundle.exists() and not folder.incoming.exists():
        folder.bundle.replace(folder.incoming)


def has_all(folder: RunDir, announced: Bundle | None) -> bool:
    """Whether what an earlier visit brought is the whole bundle, so that no host is needed."""
    _prepare(folder)
    if announced is None or not folder.incoming.exists():
        return False
    if folder.incoming.stat().st_size != announced.size:
        return False
    try:
        unpack.check_members(folder.incoming, announced.manifest_sha256)
    except EvidenceError:
        return False
    return True


def take(folder: RunDir, announced: Bundle) -> Arrival:
    """Check every file of what arrived, and put it in its place.

    Raises:
        EvidenceError: it is damaged, and removed: the host has it; or this machine could not write
            it, and what arrived is kept for the next time.
    """
    again = f"orch fetch {folder.run_id}"
    try:
        arrival = _put_in_place(folder, announced)
    except unpack.Damaged as error:
        folder.incoming.unlink()
        error.fix = again
        raise
    except EvidenceError as error:
        error.fix = f"{error.fix or 'mend that'}, then {again}: what arrived is kept"
        raise
    folder.incoming.replace(folder.bundle)
    return arrival


def _put_in_place(folder: RunDir, announced: Bundle) -> Arrival:
    size = folder.incoming.stat().st_size
    if size != announced.size:
        raise unpack.Damaged(
            f"{folder.incoming} has {size} bytes", expected=f"{announced.size}, by the host's word"
        )
    _remove_torsos(folder)
    if _is_unpacked(folder, announced):
        # Stopped between the last file and the word that the run is home.
        contents = unpack.check_members(folder.incoming, announced.manifest_sha256)
        return Arrival(len(contents.members))
    fresh = folder.path / _FRESH
    contents = unpack.unpack(folder.incoming, fresh, announced.manifest_sha256)
    aside = _put_aside(folder)
    fresh.replace(folder.evidence)
    return Arrival(len(contents.members), aside)


def _is_unpacked(folder: RunDir, announced: Bundle) -> bool:
    if not folder.evidence.exists():
        return False
    try:
        check.unpacked(folder, announced.manifest_sha256)
    except EvidenceError:
        return False
    return True


def _remove_torsos(folder: RunDir) -> None:
    """What was being unpacked when somebody was killed over it."""
    for pattern in (".evidence-*", f".{_FRESH}-*"):
        for path in folder.path.glob(pattern):
            shutil.rmtree(path)


def _put_aside(folder: RunDir) -> Path | None:
    """Keep what is not what came home: somebody may have worked on it."""
    if not folder.evidence.exists():
        return None
    for number in itertools.count(1):
        place = folder.path / f"evidence.replaced-{number}"
        if not place.exists():
            folder.evidence.replace(place)
            return place
    raise AssertionError("numbers do not end")
