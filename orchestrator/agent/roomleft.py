"""Which files a bundle takes along where the disk has no room for all: the largest stay behind.

What a step recorded and its log come first: a result that is left out looks like one that was never
recorded. They stay behind for want of room only where nothing else is left to leave out.
"""

from __future__ import annotations

import os
import zlib
from typing import Callable, Iterable, List, Mapping, Sequence

from orchestrator.agent import manifest
from orchestrator.agent.layout import RunFolder
from orchestrator.agent.plainfile import open_plain
from orchestrator.agent.reserve import RESERVE_BYTES, Reserve, free_bytes

# Logs and results of this size come along even when the disk is full.
SMALL_BYTES = 32 << 10
_RESULTS, _LOG = "results.jsonl", "log"
_SAMPLE_BYTES = 256 << 10
# What a zip needs for a member besides its content, in front of it and at the end.
_MEMBER_BYTES = 512
_SHOWN = 10


def is_record(name: str) -> bool:
    """Whether it is the log of a step, or its results."""
    top, *inner = name.split("/")
    return top == "steps" and len(inner) == 2 and inner[1] in (_RESULTS, _LOG)


def records_first(names: Iterable[str]) -> List[str]:
    """Results, then logs, then everything else, so that nothing takes their room."""

    def rank(name: str) -> int:
        return 2 if not is_record(name) else int(name.endswith(f"/{_LOG}"))

    return sorted(names, key=rank)


def fitting(
    run: RunFolder,
    names: Sequence[str],
    reserve: Reserve,
    note: Callable[[str], None],
    lost: Callable[[str], None],
) -> Sequence[str]:
    """The files that the disk has room for a second time.

    As much as half of the reserve is left to the conditions and the journal; results and logs
    leave them half of what there is, where that is less.

    Args:
        note: hears which files it has no room for.
        lost: hears it where they are logs or results.
    """
    there = free_bytes(run.path) + reserve.size
    room = there - RESERVE_BYTES // 2
    sizes = {name: os.lstat(run.inside(name)).st_size for name in names}
    if sum(sizes.values()) + _MEMBER_BYTES * len(names) <= room:
        return names
    needed = {name: _deflated_bytes(run.inside(name), size) for name, size in sizes.items()}
    left_out = _left_out(names, sizes, needed, room, max(room, there // 2))
    for which, tell in ((False, note), (True, lost)):
        some = [name for name in left_out if is_record(name) is which]
        if some:
            tell(_said(some, sizes))
    gone = set(left_out)
    return [name for name in names if name not in gone]


def _left_out(
    names: Sequence[str],
    sizes: Mapping[str, int],
    needed: Mapping[str, int],
    room: int,
    room_for_records: int,
) -> List[str]:
    """The largest, until the rest fits; small logs behind all of them, small results last."""

    def rank(name: str) -> int:
        small = is_record(name) and sizes[name] <= SMALL_BYTES
        return 0 if not small else 1 if name.endswith(f"/{_LOG}") else 2

    total = sum(needed.values())
    found = []
    for name in sorted(names, key=lambda name: (rank(name), -needed[name])):
        if total > (room_for_records if is_record(name) else room):
            total -= needed[name]
            found.append(name)
    return found


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


def _said(names: Sequence[str], sizes: Mapping[str, int]) -> str:
    shown = [f"`{manifest.portable_path(name)}` ({sizes[name]} bytes)" for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    verb = "is" if len(names) == 1 else "are"
    return f"the disk of the host is full: {', '.join(shown)}{more} {verb} not in the bundle"
