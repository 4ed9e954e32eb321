"""A connection that is kept open between runs, with an agent waiting at its far end.

Logging in and starting an agent takes longer than most rounds need. A host with `keep_open: 10m`
gets a courier: a process of this user, on this machine, that holds the connection for so long after
the last run and lends it to the next one through a socket that only this user can reach. It knows
nothing of what it carries. Whatever goes wrong with it, the run makes a connection of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from orchestrator.agent.frames import GREETING
from orchestrator.errors import OrchError
from orchestrator.link import agentzip, bootstrap, carriers
from orchestrator.link.pipe import Pipe
from orchestrator.spec.hosts import Host

# A courier that was lent a moment ago has the next agent greeted within this.
CONNECT_DEADLINE_S = 1.0
GREETING_DEADLINE_S = 120.0
_PIECE_BYTES = 256 << 10
_WATCH_S = 15.0
# A clock that ran on while nothing was watched means that this machine slept.
_SLEPT_S = 40.0
# `sun_path` has 104 bytes on macOS and 108 on Linux, with a zero byte at its end.
_LONGEST_SOCKET_PATH = 104


class CourierPipe:
    """The lent connection: the agent behind it has been started and has not yet been spoken to."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def read(self, count: int) -> bytes:
        try:
            return self._socket.recv(count)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def again(self) -> None:
        """The courier sees to that."""

    def is_alive(self) -> bool:
        return self._socket.fileno() >= 0

    def last_words(self) -> str:
        return ""

    def exit_code(self) -> int | None:
        return None


def borrow(name: str, host: Host) -> CourierPipe | None:
    """The connection of this host's courier, if one is there and free."""
    if not is_wanted(host):
        return None
    path = _socket_path(name, host)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(CONNECT_DEADLINE_S)
    try:
        _check_private(path.parent)
        connection.connect(str(path))
        # The courier greets when its link was alive a moment ago; it closes the socket otherwise.
        if connection.recv(1) != b"\x01":
            connection.close()
            return None
    except OSError:
        connection.close()
        return None
    connection.settimeout(None)
    return CourierPipe(connection)


def provide(name: str, host: Host) -> None:
    """See to it that the next run finds a courier; returns at once.

    Raises:
        OSError: its folder cannot be made, or is open to others.
    """
    if not is_wanted(host) or _is_held(_socket_path(name, host).with_suffix(".pid")):
        return
    order = json.dumps({"name": name, "host": host.model_dump(mode="json")})
    log = _socket_path(name, host).with_suffix(".log")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(log.parent)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.link.courier"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    assert process.stdin is not None
    process.stdin.write(order.encode("utf-8"))
    process.stdin.close()
    # Its parent is about to end; nobody waits for it, and that is not a leak.
    process.returncode = 0


def is_there(name: str, host: Host) -> bool:
    """Whether a courier seems to wait for this host; only `borrow` can tell."""
    return is_wanted(host) and _socket_path(name, host).exists()


def dismiss(name: str, host: Host) -> bool:
    """End this host's courier; False when there is none."""
    path = _socket_path(name, host).with_suffix(".pid")
    # The number of a courier that was killed may be another process's by now.
    if not (is_wanted(host) and _is_held(path)):
        return False
    try:
        os.kill(int(path.read_text("ascii")), signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return True


def is_wanted(host: Host) -> bool:
    return host.keep_open is not None and hasattr(socket, "AF_UNIX")


def _socket_path(name: str, host: Host) -> Path:
    """One courier for one way to one host with one version of the agent."""
    key = name + host.model_dump_json() + agentzip.name()
    file = f"{hashlib.sha256(key.encode('utf-8')).hexdigest()[:16]}.sock"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    path = cache / "orch" / file
    if len(os.fsencode(path)) < _LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.gettempdir(), f"orch-{os.getuid()}", file)


def _hold(file: IO[str]) -> None:
    """Lock a file until it is closed, or its process has ended in whatever way.

    Raises:
        BlockingIOError: another process holds it.
    """
    # Not on Windows, which has no courier either.
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(path: Path) -> bool:
    try:
        with path.open("r", encoding="ascii") as file:
            _hold(file)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _check_private(folder: Path) -> None:
    facts = folder.stat()
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise PermissionError(f"{folder} is open to others")


# ---- the courier itself


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
        self._path = _socket_path(name, host)
        self._pid_file = self._path.with_suffix(".pid")
        self._alive_at = time.time()

    def serve(self) -> None:
        """Lend the connection until nobody has wanted it for `keep_open`."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(self._path.parent)
        # Whoever holds the file is the courier; another one that was started as well leaves.
        with self._pid_file.open("a", encoding="ascii") as file:
            _hold(file)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
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
