"""Which files a bundle takes along where the disk has no room for all: the largest stay behind."""

from __future__ import annotations

import os
import zlib
from typing import Callable, Sequence

from orchestrator.agent import manifest
from orchestrator.agent.layout import RunFolder
from orchestrator.agent.plainfile import open_plain
from orchestrator.agent.reserve import RESERVE_BYTES, Reserve, free_bytes

# Logs and results of this size come along even when the disk is full.
SMALL_BYTES = 32 << 10
_SAMPLE_BYTES = 256 << 10
# What a zip needs for a member besides its content, in front of it and at the end.
_MEMBER_BYTES = 512
_SHOWN = 10


def fitting(
    run: RunFolder, names: Sequence[str], reserve: Reserve, note: Callable[[str], None]
) -> Sequence[str]:
    """The files that the disk has room for a second time; `note` hears which ones it has not.

    Half of the reserve is left to the conditions and the journal.
    """
    room = free_bytes(run.path) + reserve.size - RESERVE_BYTES // 2
    sizes = {name: os.lstat(run.inside(name)).st_size for name in names}
    if sum(sizes.values()) + _MEMBER_BYTES * len(names) <= room:
        return names
    needed = {name: _deflated_bytes(run.inside(name), size) for name, size in sizes.items()}
    total = sum(needed.values())
    left_out = []
    for name in sorted(names, key=lambda name: -needed[name]):
        if total <= room:
            break
        total -= needed[name]
        left_out.append(name)
    if left_out:
        note(_said(left_out, sizes))
    return [name for name in names if name not in set(left_out)]


def _deflated_bytes(path: str, size: int) -> int:
    """What a file will take in the zip, judged by its beginning."""
    try:
        with open_plain(path) as file:
            sample = file.read(_SAMPLE_BYTES) or b""
    except OSError:
        # It will not come along, and is told elsewhere.
        return 0
    shrunk = len(zlib.compress(sample, 1)) / max(len(sample), 1)
    return _MEMBER_BYTES + int(size * min(shrunk, 1.0))


def _said(names: Sequence[str], sizes: dict[str, int]) -> str:
    shown = [f"`{manifest.portable_path(name)}` ({sizes[name]} bytes)" for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    verb = "is" if len(names) == 1 else "are"
    return f"the disk of the host is full: {', '.join(shown)}{more} {verb} not in the bundle"
