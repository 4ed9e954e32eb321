"""Whether the bundle on the host is still what was written there; disks and people change files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import zipfile
import zlib
from typing import Any, Callable, FrozenSet, Mapping, Optional, Tuple

from orchestrator.agent.layout import RunFolder
from orchestrator.agent.manifest import FILE_NAME, Manifest
from orchestrator.agent.plainfile import open_plain

_PIECE_BYTES = 1 << 20
# What the standard library raises for a zip that is broken, or is none.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, OSError),
    *(ValueError, RuntimeError, OverflowError),
)


def facts_of(run: RunFolder) -> Optional[Mapping[str, Any]]:
    """What is known of a bundle that was finished; None when none was, or nobody can tell."""
    try:
        with open(run.bundle_facts, encoding="utf-8") as file:
            facts = json.load(file)
    except (FileNotFoundError, IsADirectoryError, ValueError, RecursionError):
        return None
    is_complete = isinstance(facts, dict) and {"size", "manifest_sha256"} <= set(facts)
    return facts if is_complete else None


def is_whole(run: RunFolder) -> bool:
    """Whether the bundle was finished, and is there in its full length."""
    facts = facts_of(run)
    try:
        found = os.stat(run.bundle)
    except FileNotFoundError:
        return False
    return facts is not None and stat.S_ISREG(found.st_mode) and found.st_size == facts["size"]


def checked(run: RunFolder) -> Optional[FrozenSet[Tuple[str, int, str]]]:
    """Path, size and sha256 of every file of the last bundle, which were looked through.

    None when nobody knows of one.
    """
    try:
        with open(run.bundle_manifest, encoding="utf-8") as file:
            members = Manifest.from_json(file.read()).members
    except (OSError, ValueError, RecursionError):
        return None
    return frozenset((member.path, member.size, member.sha256) for member in members)


def fingerprint(path: str) -> Tuple[int, str]:
    """Size and sha256 of a file.

    Raises:
        OSError: it is no plain file, or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with open_plain(path) as file:
        while True:
            piece = file.read(_PIECE_BYTES)
            if not piece:
                return size, digest.hexdigest()
            digest.update(piece)
            size += len(piece)


def _has_that_manifest(run: RunFolder, facts: Mapping[str, Any]) -> bool:
    """Whether the sha256 that a controller is told is the one of the manifest inside."""
    try:
        with zipfile.ZipFile(run.bundle) as archive:
            text = archive.read(FILE_NAME)
    except _DAMAGE:
        return False
    return bool(hashlib.sha256(text).hexdigest() == facts["manifest_sha256"])


def is_sound(run: RunFolder, meanwhile: Callable[[], None]) -> bool:
    """Whether it also holds the bytes that were written; `meanwhile` is called again and again.

    Raises:
        OSError: it cannot be read.
    """
    facts = facts_of(run)
    if facts is None or not is_whole(run):
        return False
    found = 0
    with open(run.bundle, "rb", buffering=0) as file:
        while True:
            piece = file.read(_PIECE_BYTES)
            if not piece:
                break
            found = zlib.crc32(piece, found)
            meanwhile()
    # An agent that knew nothing of the crc32 wrote the bundle: then the controller will tell.
    return facts.get("crc32", found) == found and _has_that_manifest(run, facts)
