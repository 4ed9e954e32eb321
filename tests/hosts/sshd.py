"""A real OpenSSH server on 127.0.0.1, for as long as a test needs it.

It runs as the current user, on a free port, with keys and files of its own; nothing outside its
directory is read or written. `Banner` and a noisy start-up file can be switched on.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

START_DEADLINE_S = 10.0
_PLACES = ("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd", "/opt/homebrew/sbin/sshd")


def find_sshd() -> str | None:
    """The server program, which only root has on PATH; `ORCH_TEST_SSHD` names another one."""
    chosen = os.environ.get("ORCH_TEST_SSHD")
    if chosen:
        return chosen
    return shutil.which("sshd") or next((p for p in _PLACES if os.access(p, os.X_OK)), None)


@dataclass
class SshServer:
    """A running server and what a client needs to reach it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        """An ssh config with the host `testhost`."""
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def host_public_key(self) -> str:
        """Kind and key, as in known_hosts."""
        kind, key, *_ = (self.folder / "host_key.pub").read_text("ascii").split()
        return f"{kind} {key}"

    def trust(self) -> None:
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.host_public_key}\n", "ascii")

    def distrust(self) -> None:
        self.known_hosts.write_text("", "ascii")

    def trust_another_key(self) -> None:
        """known_hosts as it looks when the host's key was replaced."""
        other = self.folder / "other_key"
        if not other.exists():
            _make_key(other)
        kind, key, *_ = other.with_suffix(".pub").read_text("ascii").split()
        text = f"# a comment line\n[127.0.0.1]:{self.port} {kind} {key}\n"
        self.known_hosts.write_text(text, "ascii")

    def hosts_yaml(self, name: str, carrier: str, **more: object) -> str:
        """A hosts.yaml entry that reaches this server by `ssh` or `openssh`."""
        lines = [f"  {name}:", f"    {carrier}: testhost", f"    ssh_config: '{self.config}'"]
        lines += [f"    {key}: '{value}'" for key, value in more.items()]
        return "hosts:\n" + "\n".join(lines) + "\n"

    def drop_connections(self) -> None:
        """Kill every session of the server, as a reboot of a switch would cut them."""
        listing = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, check=True, text=True, timeout=10
        ).stdout
        children = [
            int(pid)
            for pid, parent in (line.split() for line in listing.splitlines())
            if int(parent) == self.process.pid
        ]
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


@contextlib.contextmanager
def running(folder: Path, *, banner: str = "", port: int = 0) -> Iterator[SshServer]:
    """Start a server; stop it and its sessions afterwards.

    Raises:
        RuntimeError: it did not accept a connection in time; the text holds its log.
    """
    program = find_sshd()
    assert program is not None, "callers ask `find_sshd` first"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    chosen = port or free_port()
    _write_files(folder, chosen, banner)
    if os.getuid() == 0:
        # The server's unprivileged child lives in this empty directory when root starts it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    log = (folder / "sshd.log").open("wb")
    process = subprocess.Popen(
        [program, "-D", "-e", "-f", str(folder / "sshd_config")],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    server = SshServer(folder, chosen, process)
    try:
        _wait_for_port(server)
        server.trust()
        yield server
    finally:
        server.drop_connections()
        process.terminate()
        process.wait(timeout=START_DEADLINE_S)
        log.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_files(folder: Path, port: int, banner: str) -> None:
    _make_key(folder / "host_key")
    _make_key(folder / "client_key")
    shutil.copy(folder / "client_key.pub", folder / "authorized_keys")
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        f"PidFile {folder / 'sshd.pid'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "LogLevel VERBOSE",
        "MaxStartups 100",
        "Subsystem sftp internal-sftp",
    ]
    if banner:
        (folder / "banner").write_text(banner, "utf-8")
        lines.append(f"Banner {folder / 'banner'}")
    (folder / "sshd_config").write_text("\n".join(lines) + "\n", "utf-8")
    client = [
        "Host testhost",
        "  HostName 127.0.0.1",
        f"  Port {port}",
        f"  User {getpass.getuser()}",
        f'  IdentityFile "{folder / "client_key"}"',
        "  IdentitiesOnly yes",
        f'  UserKnownHostsFile "{folder / "known_hosts"}"',
        "  GlobalKnownHostsFile none",
    ]
    (folder / "ssh_config").write_text("\n".join(client) + "\n", "utf-8")


def _make_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".pub").unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)],
        check=True,
        timeout=START_DEADLINE_S,
    )


def _wait_for_port(server: SshServer) -> None:
    end = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < end and server.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    said = (server.folder / "sshd.log").read_text("utf-8", "replace")
    raise RuntimeError(f"sshd did not start on port {server.port}: {said}")
