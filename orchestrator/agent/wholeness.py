"""Whether the bundle on the host is still what was written there; disks and people change files."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, Callable, Mapping, Optional

from orchestrator.agent.layout import RunFolder

_PIECE_BYTES = 1 << 20


def facts_of(run: RunFolder) -> Optional[Mapping[str, Any]]:
    """What is known of a bundle that was finished; None when none was, or nobody can tell."""
    try:
        with open(run.bundle_facts, encoding="utf-8") as file:
            facts = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    is_complete = isinstance(facts, dict) and {"size", "manifest_sha256"} <= set(facts)
    return facts if is_complete else None


def is_whole(run: RunFolder) -> bool:
    """Whether the bundle was finished, and is there in its full length."""
    facts = facts_of(run)
    try:
        return facts is not None and os.path.getsize(run.bundle) == facts["size"]
    except FileNotFoundError:
        return False


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
                # An agent that knew nothing of it wrote the bundle: the controller will tell.
                return bool(facts.get("crc32", found) == found)
            found = zlib.crc32(piece, found)
            meanwhile()
