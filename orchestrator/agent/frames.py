"""The wire format: one byte stream each way, cut into frames, several streams at once.

A frame is a header of six bytes (payload length as an unsigned 32-bit big-endian integer, kind,
flags) and its payload. Two kinds exist: a message is one JSON object with a `type`; data is a piece
of a named stream, with the offset at which it belongs, so that a cut stream is resumed, not
restarted. A payload may be deflated (flag 1).
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional, Union

PROTOCOL = 1
# The agent says this before its first frame; anything in front of it is shell noise.
GREETING = b"\x00orch-agent\x01\n"

MESSAGE, DATA = 1, 2
DEFLATED = 1

MAX_PAYLOAD_BYTES = 16 << 20
PIECE_BYTES = 256 << 10

_HEADER = struct.Struct("!IBB")
_DATA_HEADER = struct.Struct("!QB")


class FrameError(Exception):
    """The other side does not speak this protocol, or the stream is damaged."""


class StreamEnded(Exception):
    """The other side is gone: the byte stream ended between or inside frames."""


@dataclass(frozen=True)
class Data:
    """A piece of a stream, and the offset of its first byte.

    The body is a view into the frame it came in: a copy of every megabyte would show.
    """

    stream: str
    offset: int
    body: Union[bytes, memoryview]


Frame = Union[Dict[str, Any], Data]
Deflate = Callable[[bytes], bytes]


def message(content: dict[str, Any]) -> bytes:
    """One JSON object as a frame.

    Raises:
        FrameError: it is larger than the other side would read.
    """
    payload = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise FrameError(f"a message of {len(payload)} bytes; {MAX_PAYLOAD_BYTES} are the limit")
    if len(payload) > 512:
        packed = lightly(payload)
        return _HEADER.pack(len(packed), MESSAGE, DEFLATED) + packed
    return _HEADER.pack(len(payload), MESSAGE, 0) + payload


def lightly(payload: bytes) -> bytes:
    """Deflate in little time: a host's processors belong to its jobs."""
    return zlib.compress(payload, 1)


class Packer:
    """Makes data frames; deflates, in the way it is told, while that pays.

    A piece that does not shrink switches deflating off for the next pieces of its stream.
    """

    _REST_PIECES = 15

    def __init__(self, deflate: Optional[Deflate] = lightly) -> None:
        self.deflate = deflate
        self._rest: dict[str, int] = {}

    def data(self, stream: str, offset: int, body: bytes) -> bytes:
        name = stream.encode("utf-8")
        head = _DATA_HEADER.pack(offset, len(name)) + name
        packed = self._deflated(stream, head + body)
        if packed is not None:
            return _HEADER.pack(len(packed), DATA, DEFLATED) + packed
        return b"".join((data_head(stream, offset, len(body)), body))

    def _deflated(self, stream: str, payload: bytes) -> bytes | None:
        if self.deflate is None:
            return None
        resting = self._rest.get(stream, 0)
        if resting:
            self._rest[stream] = resting - 1
            return None
        if len(payload) < 128:
            return None
        packed = self.deflate(payload)
        if len(packed) > 0.9 * len(payload):
            self._rest[stream] = self._REST_PIECES
            return None
        return packed


def data_head(stream: str, offset: int, length: int) -> bytes:
    """What stands before the body of a data frame that is not deflated."""
    name = stream.encode("utf-8")
    head = _DATA_HEADER.pack(offset, len(name)) + name
    return _HEADER.pack(len(head) + length, DATA, 0) + head


def read_frames(read: Callable[[int], bytes]) -> Iterator[Frame]:
    """Frames until the stream ends.

    Args:
        read: returns up to that many bytes, and no bytes only at the end.

    Raises:
        FrameError: what arrives is not a frame.
        StreamEnded: the stream ended; always, since a conversation ends with a message.
    """
    exactly = _exact(read)
    while True:
        length, kind, flags = _HEADER.unpack(exactly(_HEADER.size))
        if length > MAX_PAYLOAD_BYTES or kind not in (MESSAGE, DATA):
            raise FrameError(f"not a frame: length {length}, kind {kind}")
        payload = exactly(length)
        if flags & DEFLATED:
            payload = _inflated(payload)
        yield _message(payload) if kind == MESSAGE else _data(payload)


def _exact(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def exactly(count: int) -> bytes:
        first = read(count)
        if len(first) == count:
            return first
        parts = [first]
        missing = count - len(first)
        while missing:
            if not parts[-1]:
                raise StreamEnded("the stream ended")
            parts.append(read(missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    return exactly


def _inflated(payload: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        inflated = unpacker.decompress(payload, MAX_PAYLOAD_BYTES + 1)
    except zlib.error as error:
        raise FrameError(f"damaged frame: {error}") from error
    if len(inflated) > MAX_PAYLOAD_BYTES:
        raise FrameError(f"a frame inflates to more than {MAX_PAYLOAD_BYTES} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise FrameError("damaged frame: its deflated payload does not end where the frame does")
    return inflated


def _message(payload: bytes) -> dict[str, Any]:
    try:
        content = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a message is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise FrameError("a message without a type")
    return content


def _data(payload: bytes) -> Data:
    try:
        offset, name_length = _DATA_HEADER.unpack_from(payload)
        start = _DATA_HEADER.size + name_length
        name = payload[_DATA_HEADER.size : start].decode("utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"a data frame without a stream: {error}") from error
    if start > len(payload):
        raise FrameError(f"a data frame of {len(payload)} bytes")
    return Data(name, offset, memoryview(payload)[start:])
