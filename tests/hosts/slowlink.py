"""A TCP proxy on 127.0.0.1 that behaves like a long, narrow link.

Every byte is delivered half a round-trip time after it was sent, at no more than the given rate in
each direction, and a connection takes one round trip before it carries anything. The link can be
cut, and brought back, while connections are open.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

_PIECE_BYTES = 32 << 10
# What a router would buffer: beyond it the sender is held back, as TCP would be.
_BUFFERED_PIECES = 64


@dataclass
class SlowLink:
    """A running proxy to one port of this machine."""

    target_port: int
    round_trip_s: float
    bytes_per_s: float
    port: int = 0
    carried_bytes: int = 0
    connections: int = 0
    _down: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Drop every connection, and refuse new ones until `mend`."""
        assert self._loop is not None
        self._down = True
        asyncio.run_coroutine_threadsafe(self._abort_all(), self._loop).result(timeout=5)

    def mend(self) -> None:
        self._down = False

    async def _abort_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._down:
            writer.transport.abort()
            return
        self.connections += 1
        # The three-way handshake, which a proxy on the same machine would hide.
        await asyncio.sleep(self.round_trip_s)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        except asyncio.CancelledError:
            # The proxy stops; a callback of asyncio's would print this as an error.
            return
        finally:
            self._writers -= {writer, far_writer}
            for side in (writer, far_writer):
                side.close()
                with contextlib.suppress(ConnectionError, OSError):
                    await side.wait_closed()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_BUFFERED_PIECES)
        await asyncio.gather(self._take_in(source, pieces), self._let_out(pieces, sink))

    async def _take_in(
        self, source: asyncio.StreamReader, pieces: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        clock = asyncio.get_running_loop().time
        free_at = 0.0
        while True:
            try:
                piece = await source.read(_PIECE_BYTES)
            except ConnectionError:
                piece = b""
            # The wire is busy with what was sent before; only then does this piece leave.
            free_at = max(free_at, clock()) + len(piece) / self.bytes_per_s
            await pieces.put((free_at + self.round_trip_s / 2, piece))
            if not piece:
                return

    async def _let_out(
        self, pieces: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(max(due - clock(), 0))
            with contextlib.suppress(ConnectionError, OSError):
                if not piece:
                    if sink.can_write_eof():
                        sink.write_eof()
                    return
                sink.write(piece)
                await sink.drain()
                self.carried_bytes += len(piece)


@contextlib.contextmanager
def running(
    target_port: int, *, round_trip_s: float = 0.05, bits_per_s: float = 100e6
) -> Iterator[SlowLink]:
    """Start a proxy in a thread of its own; stop it afterwards."""
    link = SlowLink(target_port, round_trip_s, bits_per_s / 8)
    ready = threading.Event()
    stop: list[asyncio.Event] = []

    async def serve() -> None:
        link._loop = asyncio.get_running_loop()
        stop.append(asyncio.Event())
        server = await asyncio.start_server(link._serve, "127.0.0.1", 0)
        link.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop[0].wait()
        server.close()
        await link._abort_all()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(timeout=10), "the proxy starts at once"
    try:
        yield link
    finally:
        assert link._loop is not None
        link._loop.call_soon_threadsafe(stop[0].set)
        thread.join(timeout=10)


def main() -> None:
    """`python -m tests.hosts.slowlink PORT`: run a proxy to a port until a key is pressed."""
    import sys

    with running(int(sys.argv[1])) as link:
        print(link.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
