"""A long stream: whole, in order, and deflated as hard as the link leaves time for."""

from __future__ import annotations

import random
import time
import zlib
from dataclasses import dataclass, field

import pytest

from orchestrator.agent import frames
from orchestrator.agent.frames import PIECE_BYTES, Data, Frame, Packer
from orchestrator.link import deflate, outflow


@dataclass
class Listener:
    """Stands where a session stands; every write takes as long as it is told to."""

    packer: Packer
    write_s: float = 0.0
    sent: list[bytes] = field(default_factory=list)

    def write(self, frame: bytes) -> None:
        time.sleep(self.write_s)
        self.sent.append(frame)

    def tell(self, kind: str) -> None:
        self.sent.append(frames.message({"type": kind}))

    @property
    def heard(self) -> list[Frame]:
        raw = memoryview(b"".join(self.sent))
        at = 0

        def read(count: int) -> bytes:
            nonlocal at
            at += count
            return bytes(raw[at - count : at])

        found = []
        for frame in frames.read_frames(read):
            found.append(frame)
            if at == len(raw):
                break
        return found


def send(listener: Listener, content: bytes, chunk_bytes: int = 70_000) -> None:
    chunks = (content[i : i + chunk_bytes] for i in range(0, len(content), chunk_bytes))
    outflow.send(listener, "blobs", chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", [None, deflate.quickly, deflate.well])
def test_the_pieces_are_the_content(way: frames.Deflate | None) -> None:
    source = random.Random(1)
    content = source.randbytes(300_000) + b"text " * 300_000 + source.randbytes(17)
    listener = Listener(Packer(way))

    send(listener, content)

    *pieces, end = listener.heard
    assert end == {"type": "blobs_end"}
    assert b"".join(bytes(piece.body) for piece in pieces if isinstance(piece, Data)) == content
    assert [piece.offset for piece in pieces if isinstance(piece, Data)] == list(
        range(0, len(content), PIECE_BYTES)
    )


def test_a_slow_link_is_given_what_is_deflated_well() -> None:
    listener = Listener(Packer(deflate.quickly), write_s=0.04)

    send(listener, b"some words\n" * (40 * PIECE_BYTES // 11))

    assert listener.packer.deflate is deflate.well


def test_a_fast_link_is_not_made_to_wait() -> None:
    listener = Listener(Packer(deflate.well))

    send(listener, random.Random(1).randbytes(PIECE_BYTES // 8).hex().encode() * (4 * 80))

    assert listener.packer.deflate is None


def test_a_link_that_needs_no_deflating_is_never_given_any() -> None:
    listener = Listener(Packer(None), write_s=0.01)

    send(listener, b"x" * (40 * PIECE_BYTES))

    assert listener.packer.deflate is None


@pytest.mark.parametrize("way", [deflate.quickly, deflate.well])
def test_both_ways_are_what_zlib_inflates(way: frames.Deflate) -> None:
    text = b"def f(x):\n    return x\n" * 2000

    packed = way(text)

    assert zlib.decompress(packed) == text
    assert len(packed) < len(text) / 10


def test_without_the_fast_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deflate, "_fast", None)

    assert zlib.decompress(deflate.quickly(b"words " * 100)) == b"words " * 100
