"""npz: the arrays inside, whatever the zip around them looks like."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from orchestrator.diff.blob import Blob, open_plain
from orchestrator.diff.numeric.stream import Stored
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import Skipped, Unreadable
from orchestrator.diff.types import collection
from orchestrator.diff.types.array import header

_MOST_ARRAYS = 100_000


def compare(pair: Pair) -> Record:
    """Compare two archives array by array."""
    a, b = pair.read(lambda blob: _arrays(blob, pair.limits.unpacked_bytes))
    return collection.compare(pair, a, b)


def check(pair: Pair) -> None:
    for opener in _arrays(pair.a, pair.limits.unpacked_bytes).values():
        with opener():
            pass


def _arrays(blob: Blob, most_bytes: int) -> dict[str, collection.Opener]:
    path = blob.on_disk()
    try:
        with open_plain(path) as raw, zipfile.ZipFile(raw) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
        raise Unreadable(f"is no npz file: {error}") from error
    if len(infos) > _MOST_ARRAYS:
        raise Skipped(f"holds {len(infos)} arrays; {_MOST_ARRAYS} are looked at")
    if sum(info.file_size for info in infos) > most_bytes:
        raise Skipped(f"unpacks to more than {most_bytes} bytes")
    names = [info.filename for info in infos]
    if len(set(names)) != len(names):
        raise Unreadable("holds a name twice")
    strange = [name for name in names if not name.endswith(".npy")]
    if strange:
        raise Unreadable(f"holds `{strange[0]}`, which is no array")
    return {
        info.filename.removesuffix(".npy"): partial(
            _open, Blob(path, info.file_size, info.filename)
        )
        for info in infos
    }


@contextmanager
def _open(member: Blob) -> Iterator[Stored]:
    with member.open() as file:
        try:
            yield header(file, member.size)
        except Unreadable as error:
            raise Unreadable(f"`{member.member}` {error}") from error
