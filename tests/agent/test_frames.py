"""Frames: what goes in comes out, and damage is an error, never another message."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agent import frames
from orchestrator.agent.frames import Data, FrameError, Packer, StreamEnded

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)
MESSAGES = st.dictionaries(st.text(max_size=8), JSON, max_size=5).map(
    lambda facts: {**facts, "type": "news"}
)
DATA = st.builds(
    Data, st.text(min_size=1, max_size=20), st.integers(0, 2**63), st.binary(max_size=2000)
)


def read_all(raw: bytes, most: int = 1 << 30) -> list[frames.Frame]:
    """All frames of a stream that ends behind the last one, read in bites of that size at most."""
    source = io.BytesIO(raw)
    found: list[frames.Frame] = []
    with pytest.raises(StreamEnded):
        found.extend(frames.read_frames(lambda count: source.read(min(count, most))))
    return found


def packed(frame: Any, packer: Packer) -> bytes:
    if isinstance(frame, Data):
        return packer.data(frame.stream, frame.offset, frame.body)
    return frames.message(frame)


@given(
    st.lists(MESSAGES | DATA, max_size=6),
    st.sampled_from([None, frames.lightly]),
    st.integers(1, 50),
)
def test_what_goes_in_comes_out_in_whatever_bites_it_is_read(
    sent: list[Any], deflate: frames.Deflate | None, bite: int
) -> None:
    packer = Packer(deflate)

    assert read_all(b"".join(packed(one, packer) for one in sent), bite) == sent


@given(MESSAGES | DATA, st.integers(1, 5000))
def test_a_stream_cut_anywhere_has_ended(sent: Any, cut: int) -> None:
    raw = packed(sent, Packer())

    assert read_all(raw[: -min(cut, len(raw))]) == []


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_noise_is_an_error_or_the_end_never_a_crash(noise: bytes) -> None:
    source = io.BytesIO(noise)

    with pytest.raises((FrameError, StreamEnded)):
        list(frames.read_frames(source.read))


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_never_raises_anything_else(data: st.DataObject) -> None:
    raw = bytearray(frames.message({"type": "a" * 600}) + Packer().data("s", 5, b"x" * 400))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    source = io.BytesIO(bytes(raw))

    with pytest.raises((FrameError, StreamEnded)):
        list(frames.read_frames(source.read))


class TestOversize:
    def test_a_length_beyond_the_limit_is_refused_before_it_is_read(self) -> None:
        header = struct.pack("!IBB", frames.MAX_PAYLOAD_BYTES + 1, frames.DATA, 0)

        with pytest.raises(FrameError, match="not a frame"):
            next(frames.read_frames(io.BytesIO(header).read))

    def test_a_bomb_is_refused_before_it_is_inflated(self) -> None:
        bomb = zlib.compress(b"0" * (frames.MAX_PAYLOAD_BYTES + 1), 9)
        header = struct.pack("!IBB", len(bomb), frames.MESSAGE, frames.DEFLATED)

        with pytest.raises(FrameError, match="inflates to more than"):
            next(frames.read_frames(io.BytesIO(header + bomb).read))

    def test_the_largest_payload_passes(self) -> None:
        body = bytes(frames.MAX_PAYLOAD_BYTES - 20)
        for deflate in (None, frames.lightly):
            (found,) = read_all(Packer(deflate).data("s", 0, body))
            assert isinstance(found, Data)
            assert len(found.body) == len(body)

    def test_a_message_that_nobody_would_read_is_not_sent(self) -> None:
        with pytest.raises(FrameError, match=r"a message of \d+ bytes"):
            frames.message({"type": "plan", "text": "x" * (frames.MAX_PAYLOAD_BYTES + 1)})


def one_frame(kind: int, payload: bytes, flags: int = 0) -> Callable[[int], bytes]:
    return io.BytesIO(struct.pack("!IBB", len(payload), kind, flags) + payload).read


class TestDamage:
    @pytest.mark.parametrize(
        "payload",
        [b"", b"{", b"null", b"[]", b'"type"', b"{}", b'{"type": 5}', b"\xff", b"[" * 100_000],
    )
    def test_a_message_that_is_none(self, payload: bytes) -> None:
        with pytest.raises(FrameError, match="message"):
            next(frames.read_frames(one_frame(frames.MESSAGE, payload)))

    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"short",
            struct.pack("!QB", 0, 9) + b"name",
            struct.pack("!QB", 0, 2) + b"\xff\xfe",
        ],
        ids=["empty", "short", "name cut", "name not utf-8"],
    )
    def test_data_that_is_none(self, payload: bytes) -> None:
        with pytest.raises(FrameError, match="data frame"):
            next(frames.read_frames(one_frame(frames.DATA, payload)))

    @pytest.mark.parametrize("kind", [0, 3, 255])
    def test_a_kind_that_does_not_exist(self, kind: int) -> None:
        with pytest.raises(FrameError, match=f"kind {kind}"):
            next(frames.read_frames(one_frame(kind, b"{}")))

    @pytest.mark.parametrize("cut", [1, 5])
    def test_a_deflated_payload_that_is_cut(self, cut: int) -> None:
        payload = zlib.compress(b"x" * 100)[:-cut]

        with pytest.raises(FrameError, match="damaged frame"):
            next(frames.read_frames(one_frame(frames.DATA, payload, frames.DEFLATED)))

    def test_bytes_behind_a_deflated_payload(self) -> None:
        payload = zlib.compress(json.dumps({"type": "x"}).encode()) + b"more"

        with pytest.raises(FrameError, match="damaged frame"):
            next(frames.read_frames(one_frame(frames.MESSAGE, payload, frames.DEFLATED)))


class TestPacker:
    def test_what_shrinks_is_deflated(self) -> None:
        assert len(Packer().data("s", 0, b"x" * 10_000)) < 200

    def test_what_does_not_shrink_is_sent_as_it_is_and_rests_for_a_while(self) -> None:
        packer = Packer()
        noise = random.Random(1).randbytes(10_000)
        text = b"x" * 10_000
        assert len(packer.data("s", 0, noise)) > len(noise)

        sizes = [len(packer.data("s", 0, text)) for _ in range(20)]

        assert all(size > len(text) for size in sizes[:15])
        assert all(size < 200 for size in sizes[15:])

    def test_streams_rest_each_for_itself(self) -> None:
        packer = Packer()
        packer.data("noise", 0, random.Random(1).randbytes(10_000))

        assert len(packer.data("text", 0, b"x" * 10_000)) < 200
