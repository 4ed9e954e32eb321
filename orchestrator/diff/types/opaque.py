"""Files of no known type: size, hash, and where the first difference is."""

from __future__ import annotations

import hashlib

from orchestrator.diff.blob import PIECE_BYTES, Blob
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record


def compare(pair: Pair) -> Record:
    """Different bytes are different; the record says by which hash and from where on."""
    hashes = pair.read(_sha256)
    first = _first_difference(pair.a, pair.b)
    locations = [Location("sha256", *hashes)] if hashes[0] != hashes[1] else []
    if first is not None:
        locations.append(Location(f"byte {first}"))
    return pair.record(
        "different" if locations else "equal",
        metrics={"size_delta": pair.b.size - pair.a.size},
        locations=locations,
    )


def check(pair: Pair) -> None:
    """Any bytes will do."""


def _sha256(blob: Blob) -> str:
    digest = hashlib.sha256()
    with blob.open() as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _first_difference(a: Blob, b: Blob) -> int | None:
    """Offset of the first byte that differs; None when there is none."""
    offset = 0
    with a.open() as first, b.open() as second:
        while True:
            one, two = first.read(PIECE_BYTES), second.read(PIECE_BYTES)
            if one != two:
                return offset + _common_length(one, two)
            if not one:
                return None
            offset += len(one)


def _common_length(one: bytes, two: bytes) -> int:
    """How many bytes at the beginning are the same, by halving."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == two[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
