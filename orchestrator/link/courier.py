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
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from orchestrator.link import agentzip
from orchestrator.link.pipe import STALL_S
from orchestrator.spec.hosts import Host

# A courier that was lent a moment ago has the next agent greeted within this.
CONNECT_DEADLINE_S = 1.0
# For a courier to close its link, and then for the kernel to close it.
END_DEADLINE_S = 3.0
# `sun_path` has 104 bytes on macOS and 108 on Linux, with a zero byte at its end.
_LONGEST_SOCKET_PATH = 104


class CourierPipe:
    """The lent connection: the agent behind it has been started and has not yet been spoken to."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # For what is sent; a host may well be silent for longer.
        connection.settimeout(STALL_S)

    def read(self, count: int) -> bytes:
        while True:
            try:
                return self._socket.recv(count)
            except TimeoutError:
                continue
            except OSError:
                return b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._socket.send(view) :]

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
    path = socket_path(name, host)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(CONNECT_DEADLINE_S)
    try:
        check_private(path.parent)
        connection.connect(str(path))
        # The courier greets when its link was alive a moment ago; it closes the socket otherwise.
        if connection.recv(1) != b"\x01":
            connection.close()
            return None
    except OSError:
        connection.close()
        return None
    return CourierPipe(connection)


def provide(name: str, host: Host) -> None:
    """See to it that the next run finds a courier; returns at once.

    Raises:
        OSError: its folder cannot be made, or is open to others.
    """
    if not is_wanted(host) or _is_held(socket_path(name, host).with_suffix(".pid")):
        return
    order = json.dumps({"name": name, "host": host.model_dump(mode="json")})
    log = socket_path(name, host).with_suffix(".log")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(log.parent)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.link.lending"],
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
    return is_wanted(host) and socket_path(name, host).exists()


def dismiss(name: str) -> bool:
    """End every courier of a host of that name; False when there is none.

    There may be several: one that was started before the host's entry was changed goes on.
    """
    if not hasattr(socket, "AF_UNIX"):
        return False
    ended = [_end(path) for folder in _folders() for path in _of_host(folder, name)]
    return True in ended


def _of_host(folder: Path, name: str) -> Iterator[Path]:
    """Files that couriers of that host hold; see `introduce`."""
    try:
        check_private(folder)
    except OSError:
        return
    for path in sorted(folder.glob("*.pid")):
        # The number of a courier that was killed may be another process's by now.
        if _is_held(path) and path.read_text("utf-8").partition("\n")[2].strip() == name:
            yield path


def introduce(file: IO[str], name: str) -> None:
    """Write who holds the file: this process, for that host."""
    file.truncate(0)
    file.write(f"{os.getpid()}\n{name}\n")
    file.flush()


def _end(path: Path) -> bool:
    """Whether the courier that holds the file is gone now; a stopped one is only by SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(int(path.read_text("utf-8").partition("\n")[0]), number)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            break
        end = time.monotonic() + END_DEADLINE_S
        while _is_held(path) and time.monotonic() < end:
            time.sleep(0.01)
        if not _is_held(path):
            break
    if _is_held(path):
        return False
    for left in (path, path.with_suffix(".sock"), path.with_suffix(".log")):
        left.unlink(missing_ok=True)
    return True


def lends_freely(host: Host) -> bool:
    """Whether what is lent is replaced without another login, so that a question may take it.

    `openssh:` and `via:` log in again behind each use, which nobody may be there to confirm.
    """
    return host.carrier in ("local", "ssh")


def is_wanted(host: Host) -> bool:
    return host.keep_open is not None and hasattr(socket, "AF_UNIX")


def socket_path(name: str, host: Host) -> Path:
    """One courier for one way to one host with one version of the agent."""
    key = name + host.model_dump_json() + agentzip.name()
    file = f"{hashlib.sha256(key.encode('utf-8')).hexdigest()[:16]}.sock"
    in_cache, short = (folder / file for folder in _folders())
    return in_cache if len(os.fsencode(in_cache)) < _LONGEST_SOCKET_PATH else short


def _folders() -> tuple[Path, Path]:
    """Where sockets lie: in the user's cache, or where the path to it is too long for one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "orch", Path(tempfile.gettempdir(), f"orch-{os.getuid()}")


def hold(file: IO[str]) -> None:
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
            hold(file)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def check_private(folder: Path) -> None:
    facts = folder.stat()
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise PermissionError(f"{folder} is open to others")
