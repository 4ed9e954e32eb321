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
        if self.write_s:
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


def without_work(_payload: bytes) -> bytes:
    return b"small"


def slowly(payload: bytes) -> bytes:
    time.sleep(0.01)
    return deflate.quickly(payload)


def more_slowly(payload: bytes) -> bytes:
    time.sleep(0.02)
    return deflate.quickly(payload)


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


def test_a_slow_link_is_given_what_is_deflated_harder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outflow, "_WAYS", (None, without_work, slowly))
    listener = Listener(Packer(without_work), write_s=0.02)

    send(listener, b"some words\n" * (40 * PIECE_BYTES // 11))

    assert listener.packer.deflate is slowly


def test_a_fast_link_is_not_made_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ways a thousand times slower than the listener: other work on the machine decides nothing.
    monkeypatch.setattr(outflow, "_WAYS", (None, slowly, more_slowly))
    listener = Listener(Packer(more_slowly))

    send(listener, b"some words\n" * (80 * PIECE_BYTES // 11))

    assert listener.packer.deflate is None


@pytest.mark.parametrize(
    ("waiting_s", "work_s", "sending_s", "then"),
    [
        (0.021, 0.02, 0.010, None),  # the link waits for us
        (0.019, 0.02, 0.010, deflate.quickly),  # neither much for the other
        (0.0, 0.001, 0.049, deflate.quickly),  # we wait, but harder work would take as long
        (0.0, 0.001, 0.051, deflate.well),  # we wait for the link
    ],
)
def test_a_way_is_changed_by_what_was_waited_for(
    waiting_s: float, work_s: float, sending_s: float, then: frames.Deflate | None
) -> None:
    packer = Packer(deflate.quickly)
    tuner = outflow.Tuner(packer)

    for _ in range(outflow.JUDGED_PIECES - 1):
        tuner.note(waiting_s, work_s, sending_s)
    before = packer.deflate
    tuner.note(waiting_s, work_s, sending_s)

    assert before is deflate.quickly
    assert packer.deflate is then


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
