"""The courier's own process: it holds a connection and lends it to one run after the other."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import sys
import threading
import time

from orchestrator.agent.frames import GREETING
from orchestrator.errors import OrchError
from orchestrator.link import agentzip, bootstrap, carriers, courier
from orchestrator.link.pipe import Pipe
from orchestrator.spec.hosts import Host

GREETING_DEADLINE_S = 120.0
_PIECE_BYTES = 256 << 10
_WATCH_S = 15.0
# A clock that ran on while nothing was watched means that this machine slept.
_SLEPT_S = 40.0


def main() -> None:
    """Run a courier; the order stands on standard input."""
    order = json.loads(sys.stdin.read())
    # Checked when hosts.yaml was read; its durations are numbers by now.
    host = Host.model_construct(**order["host"])
    try:
        _Courier(order["name"], host).serve()
    except (OrchError, OSError) as error:
        # Standard error is the log beside the socket; the runs connect by themselves.
        sys.exit(f"no connection is kept: {error}")


class _Courier:
    def __init__(self, name: str, host: Host) -> None:
        self._name = name
        self._host = host
        self._path = courier.socket_path(name, host)
        self._pid_file = self._path.with_suffix(".pid")
        self._alive_at = time.time()

    def serve(self) -> None:
        """Lend the connection until nobody has wanted it for `keep_open`."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        courier.check_private(self._path.parent)
        # Whoever holds the file is the courier; another one that was started as well leaves.
        with self._pid_file.open("a", encoding="ascii") as file:
            courier.hold(file)
            courier.introduce(file, self._name)
            self._serve()

    def _serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        pipe: Pipe | None = None
        try:
            pipe = self._new_agent(None)
            listener = self._listener()
            while (caller := self._caller(listener, pipe)) is not None:
                # Another run that comes meanwhile makes its own connection at once.
                listener.close()
                self._path.unlink(missing_ok=True)
                fresh = _carry(caller, pipe)
                # And one that comes now waits a moment for the agent.
                listener = self._listener()
                pipe = self._new_agent(fresh)
        finally:
            self._path.unlink(missing_ok=True)
            self._pid_file.unlink(missing_ok=True)
            if pipe is not None:
                pipe.close()

    def _listener(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        self._path.chmod(0o600)
        listener.listen(1)
        return listener

    def _new_agent(self, fresh: Pipe | None) -> Pipe:
        """An agent that has greeted and waits, over a fresh pipe of the link we have, or a new one.

        Raises:
            OSError: it did not greet.
        """
        if fresh is not None:
            with contextlib.suppress(OSError):
                return self._greeted(fresh)
        return self._greeted(carriers.open_pipe(self._name, self._host))

    def _greeted(self, pipe: Pipe) -> Pipe:
        watch = threading.Timer(GREETING_DEADLINE_S, pipe.close)
        watch.start()
        try:
            pipe.write(
                bootstrap.opening(
                    agentzip.build(),
                    name=agentzip.name(),
                    files=agentzip.files(),
                    root=self._host.root,
                    interpreter=carriers.first_line(self._host),
                )
            )
            seen = b""
            while not seen.endswith(GREETING):
                piece = pipe.read(1)
                if not piece or len(seen) > 1 << 20:
                    raise OSError("the agent did not greet")
                seen += piece
        except BaseException:
            pipe.close()
            raise
        finally:
            watch.cancel()
        self._alive_at = time.time()
        return pipe

    def _caller(self, listener: socket.socket, pipe: Pipe) -> socket.socket | None:
        """The next run that wants the connection; None when it is time to go."""
        assert self._host.keep_open is not None
        end = time.monotonic() + self._host.keep_open
        while time.monotonic() < end:
            ready, _, _ = select.select([listener], [], [], min(_WATCH_S, end - time.monotonic()))
            slept = time.time() - self._alive_at > _SLEPT_S
            self._alive_at = time.time()
            if slept or not pipe.is_alive():
                # The next run makes its own connection, and a courier after it.
                return None
            if ready:
                return listener.accept()[0]
        return None


def _carry(caller: socket.socket, pipe: Pipe) -> Pipe | None:
    """Bytes both ways until one side has no more; gives a fresh pipe over the same link, if any."""

    def home() -> None:
        with contextlib.suppress(OSError):
            while piece := pipe.read(_PIECE_BYTES):
                caller.sendall(piece)
        with contextlib.suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)

    carrying = threading.Thread(target=home, name="courier home", daemon=True)
    with caller, contextlib.suppress(OSError, EOFError):
        caller.sendall(b"\x01" + GREETING)
        carrying.start()
        while piece := caller.recv(_PIECE_BYTES):
            pipe.write(piece)
    fresh = pipe.again()
    # The run has left: its agent sees the end of its input, and says nothing more.
    pipe.close()
    if carrying.ident is not None:
        carrying.join(timeout=5)
    return fresh


if __name__ == "__main__":
    main()
