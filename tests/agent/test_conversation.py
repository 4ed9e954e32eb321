"""The agent's end of the link: whole frames, honest offsets, and a word when the link is gone."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.agent import conversation, frames
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.frames import Data, FrameError, Packer, StreamEnded


class Ends:
    """A conversation, and the two descriptors of its controller."""

    def __init__(self, sink: int, source: int, link: Conversation) -> None:
        self.sink, self.source, self.link = sink, source, link
        self.open = {sink, source}

    def say(self, *parts: bytes) -> None:
        for part in parts:
            os.write(self.sink, part)

    def hang_up(self, handle: int) -> None:
        self.open.discard(handle)
        os.close(handle)

    def hear(self) -> Iterator[frames.Frame]:
        return frames.read_frames(lambda count: os.read(self.source, count))


@pytest.fixture
def ends() -> Iterator[Ends]:
    source, sink = os.pipe()
    heard, told = os.pipe()
    made = Ends(sink, heard, Conversation(source, told))
    yield made
    made.link.close()
    for handle in list(made.open):
        made.hang_up(handle)


class TestHearing:
    def test_a_stream_is_its_pieces_up_to_its_end(self, ends: Ends) -> None:
        pack = Packer()
        end = frames.message({"type": "blobs_end"})
        ends.say(pack.data("blobs", 0, b"ab"), pack.data("blobs", 2, b"c"), end)

        assert b"".join(ends.link.stream("blobs")) == b"abc"

    def test_a_controller_that_prepares_for_long_may_ping_in_between(self, ends: Ends) -> None:
        ping = frames.message({"type": "ping"})
        ends.say(ping, frames.message({"type": "hello"}))
        ends.say(
            ping, Packer().data("blobs", 0, b"ab"), ping, frames.message({"type": "blobs_end"})
        )

        assert ends.link.expect("hello") == {"type": "hello"}
        assert b"".join(ends.link.stream("blobs")) == b"ab"

    @pytest.mark.parametrize("intruder", ["data", "message"])
    def test_something_else_in_a_stream_is_refused_by_name(self, ends: Ends, intruder: str) -> None:
        other = frames.message({"type": "cancel"})
        ends.say(Packer().data("manifest", 0, b"x") if intruder == "data" else other)

        named = "the stream `manifest`" if intruder == "data" else "`cancel`"
        with pytest.raises(FrameError, match=f"expected the stream `blobs`, got {named}"):
            list(ends.link.stream("blobs"))

    def test_a_controller_that_hangs_up_is_told_from_one_that_ended(self, ends: Ends) -> None:
        ends.say(Packer().data("blobs", 0, b"half"))
        ends.hang_up(ends.sink)

        with pytest.raises(StreamEnded):
            list(ends.link.stream("blobs"))

    def test_waiting_ends_with_a_frame_or_with_its_time(self, ends: Ends) -> None:
        assert not ends.link.waiting(0.0)

        ends.say(frames.message({"type": "detach"}))

        assert ends.link.waiting(30.0)


class TestTelling:
    def test_a_file_goes_in_pieces_at_their_offsets(self, ends: Ends, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        hear = ends.hear()

        with (tmp_path / "file").open("rb", buffering=0) as file:
            assert ends.link.send_from("bundle", 2, file, 5) == 5
            assert ends.link.send_from("bundle", 7, file, 5) == 3
            assert ends.link.send_from("bundle", 10, file, 5) == 0

        first, second = next(hear), next(hear)
        assert isinstance(first, Data)
        assert isinstance(second, Data)
        assert (first.offset, bytes(first.body)) == (2, b"23456")
        assert (second.offset, bytes(second.body)) == (7, b"789")

    def test_a_large_file_goes_where_the_kernel_cannot_send_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Through plain reads and writes, however little of it each one takes."""

        def refused(*_: object) -> int:
            raise OSError(conversation.errno.ENOTSOCK, "no socket")

        monkeypatch.setattr(conversation.os, "sendfile", refused)
        body = os.urandom(3 << 20)
        (tmp_path / "file").write_bytes(body)
        ours, theirs = socket.socketpair()
        link = Conversation(os.dup(ours.fileno()), ours.detach())
        heard: list[frames.Frame] = []
        hear = frames.read_frames(theirs.recv)
        listening = threading.Thread(target=lambda: heard.append(next(hear)))
        listening.start()

        with (tmp_path / "file").open("rb", buffering=0) as file:
            assert link.send_from("bundle", 0, file, 8 << 20) == len(body)

        listening.join(30)
        link.close()
        theirs.close()
        assert isinstance(heard[0], Data)
        assert bytes(heard[0].body) == body

    @pytest.mark.parametrize("how", ["by the kernel", "by hand"])
    def test_a_file_that_shrinks_meanwhile_ends_the_visit(
        self, ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        """A frame was announced whose bytes are not there any more; nobody waits for them."""
        (tmp_path / "file").write_bytes(b"0123456789")
        file = (tmp_path / "file").open("rb+", buffering=0)
        real = os.sendfile

        def cut_before(sink: int, source: int, offset: int, count: int) -> int:
            file.truncate(4)
            if how == "by hand":
                raise OSError(conversation.errno.EINVAL, "cannot")
            return real(sink, source, offset, count)

        monkeypatch.setattr(conversation.os, "sendfile", cut_before)

        with file, pytest.raises(StreamEnded, match="became shorter while it was sent"):
            ends.link.send_from("bundle", 0, file, 100)

    def test_nobody_there_to_hear_is_told(self, ends: Ends, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"x" * (1 << 20))
        ends.hang_up(ends.source)

        with pytest.raises(StreamEnded, match="the controller is gone"):
            ends.link.tell("beat")
        with (
            (tmp_path / "file").open("rb", buffering=0) as file,
            pytest.raises(StreamEnded, match="the controller is gone"),
        ):
            ends.link.send_from("bundle", 0, file, 1 << 20)
