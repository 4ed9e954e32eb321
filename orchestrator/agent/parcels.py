"""Blobs as the controller sends them: plain, or as loose objects of git, deflated long ago."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Iterator, Sequence

from orchestrator.agent.blobs import BlobError, IncomingPack
from orchestrator.agent.launch import Refusal

# Place in the list of missing blobs, encoding, bytes on the wire, bytes of content.
_PARCEL = struct.Struct("!IBQQ")
_RAW, _LOOSE = 0, 1
_INFLATED_BYTES = 1 << 20


def receive(pieces: Iterator[bytes], pack: IncomingPack, missing: Sequence[str]) -> Iterator[str]:
    """Blobs one behind the other, each behind its place in `missing`, its encoding and sizes.

    Yields the hash of each blob once it is verified and in the store.

    Raises:
        BlobError: bytes that are not the blob, or not encoded as their parcel says.
        Refusal: a blob that was not asked for, or more or fewer bytes than were announced.
    """
    buffer = _Buffer(pieces)
    waited_for = set(range(len(missing)))
    while waited_for:
        index, encoding, wire_bytes, size = _PARCEL.unpack(buffer.take(_PARCEL.size))
        if index not in waited_for or encoding not in (_RAW, _LOOSE):
            raise Refusal("not_asked_for", f"blob {index} in encoding {encoding} was not asked for")
        waited_for.remove(index)
        portions = buffer.portions(wire_bytes)
        blob = missing[index]
        pack.add(blob, size, portions if encoding == _RAW else _loose_content(portions, size))
        yield blob
    buffer.end()


def _loose_content(portions: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The content of a loose object of git: deflated, behind `blob <size>` and a zero byte."""
    inflater = zlib.decompressobj()
    header = b"blob %d\0" % size
    left = len(header) + size
    for portion in portions:
        while portion:
            inflated = _inflated(inflater, portion)
            portion = inflater.unconsumed_tail
            left -= len(inflated)
            if left < 0:
                raise BlobError("an object inflates to more than its size")
            skipped = min(len(header), len(inflated))
            if inflated[:skipped] != header[:skipped]:
                raise BlobError("what was sent is no loose object of git")
            header = header[skipped:]
            yield inflated[skipped:]


def _inflated(inflater: Any, portion: bytes) -> bytes:
    try:
        inflated: bytes = inflater.decompress(portion, _INFLATED_BYTES)
    except zlib.error as error:
        raise BlobError(f"what was sent is no loose object of git: {error}") from error
    return inflated


class _Buffer:
    """Exact portions out of pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def some(self, most: int) -> bytes:
        if not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                raise Refusal("cut_short", "the controller sent fewer bytes than it announced")
            self._held = memoryview(piece)
        part, self._held = self._held[:most], self._held[most:]
        return bytes(part)

    def portions(self, count: int) -> Iterator[bytes]:
        """That many bytes, in whatever portions they come."""
        while count:
            part = self.some(count)
            count -= len(part)
            yield part

    def take(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            parts += self.some(count - len(parts))
        return parts

    def end(self) -> None:
        if self._held or next(self._pieces, None) is not None:
            raise Refusal("too_much", "the controller sent more bytes than were asked for")
