"""File contents as they travel: as git has deflated them already, where it keeps them loose.

A blob that was added since the last `git gc` lies in a file of its own, deflated behind a short
header. Sending that file as it is saves inflating it here and deflating it again, which on a fast
link takes longer than the link. Everything else comes from `git cat-file`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.source import tree
from orchestrator.source.git import Git

RAW, LOOSE = 0, 1
_PIECE_BYTES = 1 << 20
_LONGEST_HEADER = 64
# What is asked of git at once; between two groups the link has shown how fast it is.
_GROUP = 250


@dataclass(frozen=True)
class Parcel:
    """One blob on its way: where it stands in the list, how it is encoded, and its two sizes."""

    index: int
    encoding: int
    wire_bytes: int
    content_bytes: int


def parcels(
    git: Git, blobs: Sequence[str], *, as_deflated: Callable[[], bool]
) -> Iterator[tuple[Parcel, Iterator[bytes]]]:
    """All blobs, each with its bytes, which must be used up before the next is asked for.

    Args:
        as_deflated: asked now and then, whether git's own deflating is good enough: it is
            quick and not thorough, and a slow link leaves time for more.

    Raises:
        SourceError: git lost an object.
    """
    objects = git.directory / git.text("rev-parse", "--git-path", "objects")
    for start in range(0, len(blobs), _GROUP):
        others = []
        for index in range(start, min(start + _GROUP, len(blobs))):
            path = objects / blobs[index][:2] / blobs[index][2:]
            size = _loose_size(path) if as_deflated() else None
            if size is None:
                others.append(index)
            else:
                yield Parcel(index, LOOSE, path.stat().st_size, size), _file(path)
        names = [blobs[index] for index in others]
        for index, (_, size, pieces) in zip(others, tree.read_blobs(git, names), strict=True):
            yield Parcel(index, RAW, size, size), pieces


def _loose_size(path: Path) -> int | None:
    """The content's size from a loose object's header, or None when there is no such blob."""
    try:
        with path.open("rb") as file:
            start = zlib.decompressobj().decompress(file.read(_LONGEST_HEADER), _LONGEST_HEADER)
    except (FileNotFoundError, zlib.error):
        return None
    kind, _, rest = start.partition(b" ")
    number, end, _ = rest.partition(b"\0")
    return int(number) if kind == b"blob" and end and number.isdigit() else None


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece
