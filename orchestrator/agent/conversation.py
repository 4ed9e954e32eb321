"""The agent's end of the link: frames from standard input, frames to standard output."""

from __future__ import annotations

import errno
import os
import select
import time
from typing import IO, Any, Iterator

from orchestrator.agent import frames
from orchestrator.agent.frames import Data, Frame, FrameError, Packer, StreamEnded

# Where the link is no socket, or the file system cannot do it.
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSOCK, errno.EOPNOTSUPP)

_PIECE_BYTES = 1 << 20


class Conversation:
    """One controller, for as long as the link holds.

    Reads are unbuffered: what the selector does not see is not there.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._frames = frames.read_frames(self._read)
        self._packer = Packer()
        self.heard_at = time.monotonic()

    def greet(self) -> None:
        self._write(frames.GREETING)

    def set_compression(self, wanted: bool) -> None:
        self._packer = Packer(frames.lightly if wanted else None)

    def close(self) -> None:
        os.close(self._source)
        os.close(self._sink)

    # -- hearing

    def next(self) -> Frame:
        """The next frame.

        Raises:
            StreamEnded: the controller is gone.
            FrameError: it does not speak our protocol.
        """
        frame = next(self._frames)
        self.heard_at = time.monotonic()
        return frame

    def _next_but_pings(self) -> Frame:
        """A controller that prepares something for long says in between that it lives."""
        while True:
            frame = self.next()
            if isinstance(frame, Data) or frame["type"] != "ping":
                return frame

    def expect(self, kind: str) -> dict[str, Any]:
        """The next frame, which must be a message of that type."""
        frame = self._next_but_pings()
        if isinstance(frame, Data) or frame["type"] != kind:
            raise FrameError(f"expected `{kind}`, got {_shown(frame)}")
        return frame

    def stream(self, name: str) -> Iterator[bytes]:
        """The pieces of a stream up to the message `<name>_end`."""
        while True:
            frame = self._next_but_pings()
            if isinstance(frame, Data):
                if frame.stream != name:
                    raise FrameError(f"expected the stream `{name}`, got {_shown(frame)}")
                yield bytes(frame.body)
            elif frame["type"] == f"{name}_end":
                return
            else:
                raise FrameError(f"expected the stream `{name}`, got {_shown(frame)}")

    def waiting(self, wait_s: float) -> bool:
        """Whether something can be heard within that time."""
        ready, _, _ = select.select([self._source], [], [], max(wait_s, 0))
        return bool(ready)

    # -- telling

    def tell(self, kind: str, **facts: Any) -> None:
        self._write(frames.message({"type": kind, **facts}))

    def send(self, stream: str, offset: int, body: bytes) -> None:
        self._write(self._packer.data(stream, offset, body))

    def send_from(self, stream: str, offset: int, file: IO[bytes], most: int) -> int:
        """Send what a file holds from its offset on, at most so much; returns the bytes sent.

        The bytes go from the file to the link inside the kernel, and are not deflated.
        """
        count = min(os.fstat(file.fileno()).st_size - offset, most)
        if count <= 0:
            return 0
        self._write(frames.data_head(stream, offset, count))
        left = count
        try:
            while left:
                sent = os.sendfile(self._sink, file.fileno(), offset + count - left, left)
                if not sent:
                    raise _too_short(file)
                left -= sent
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise StreamEnded(f"the controller is gone: {error}") from error
            self._copy(file, offset + count - left, left)
        return count

    def _copy(self, file: IO[bytes], offset: int, left: int) -> None:
        while left:
            piece = os.pread(file.fileno(), min(left, _PIECE_BYTES), offset)
            if not piece:
                raise _too_short(file)
            self._write(piece)
            offset, left = offset + len(piece), left - len(piece)

    def _read(self, count: int) -> bytes:
        try:
            return os.read(self._source, count)
        except ConnectionError:
            return b""

    def _write(self, frame: bytes) -> None:
        view = memoryview(frame)
        try:
            while view:
                view = view[os.write(self._sink, view) :]
        except OSError as error:
            raise StreamEnded(f"the controller is gone: {error}") from error


def _too_short(file: IO[bytes]) -> StreamEnded:
    """The frame has been announced in full; without its bytes the link is worth nothing."""
    return StreamEnded(f"{file.name} became shorter while it was sent")


def _shown(frame: Frame) -> str:
    return f"the stream `{frame.stream}`" if isinstance(frame, Data) else f"`{frame['type']}`"
