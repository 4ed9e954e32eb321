"""The `openssh:` carrier: the system's ssh program, with the user's own configuration.

It asks for passwords and touches on the terminal itself. Its word on host keys is made as telling
as ours: the key is fetched once more, without authentication, to show the fingerprint.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paramiko

from orchestrator.errors import AuthenticationFailed, HostError, Unreachable
from orchestrator.link import hostkeys, knownhosts
from orchestrator.link.bootstrap import COMMAND
from orchestrator.link.pipe import ProcessPipe
from orchestrator.spec.hosts import Host

_DEADLINE_S = 20.0
_SSH_FAILED = 255


def open_pipe(host: Host) -> ProcessPipe:
    """Start ssh; whether it gets there shows with the first byte."""
    assert host.openssh is not None
    options = [
        "-T",
        "-o", "StrictHostKeyChecking=yes",
        "-o", f"ConnectTimeout={max(1, round(host.connect_timeout))}",
        "-o", "ServerAliveInterval=10",
        "-o", "ServerAliveCountMax=3",
    ]  # fmt: skip
    argv = ["ssh", *_config_option(host), *options, "--", host.openssh, COMMAND]
    return ProcessPipe(argv, may_ask=True)


def explain(name: str, host: Host, said: str) -> HostError:
    """The error behind what ssh printed before it gave up."""
    if "Host key verification failed" in said or "REMOTE HOST IDENTIFICATION" in said:
        try:
            checked, kind, key = fetch_host_key(host)
            hostkeys.check(name, checked, kind, key, knownhosts.read(known_hosts_files(host)))
        except HostError as error:
            return error
    if "Permission denied" in said:
        return AuthenticationFailed(
            f"`{name}` refused us: {_last_line(said)}", fix=f"make `ssh {host.openssh} true` work"
        )
    return Unreachable(
        f"no connection to `{name}`: {_last_line(said) or 'ssh gave no reason'}",
        fix=f"make `ssh {host.openssh} true` work",
    )


def fetch_host_key(host: Host) -> tuple[str, str, bytes]:
    """The key a host shows, before any authentication: (name in known_hosts, kind, key).

    Raises:
        Unreachable: no answer at the address, as behind a jump host.
    """
    settings = _settings(host)
    address, port = settings["hostname"], int(settings["port"])
    checked = settings.get("hostkeyalias") or knownhosts.host_name(address, port)
    try:
        sock = socket.create_connection((address, port), host.connect_timeout)
        transport = paramiko.Transport(sock)
        _ask_as_ssh_would(transport, checked, host)
        transport.start_client(timeout=host.connect_timeout)
        key = transport.get_remote_server_key()
        transport.close()
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise Unreachable(
            f"the host key of {checked} cannot be fetched directly: {error}",
            fix=f"run `ssh {host.openssh}` once by hand and confirm the key it shows",
        ) from error
    return checked, key.get_name(), key.asbytes()


def known_hosts_files(host: Host) -> list[Path]:
    return hostkeys.known_hosts_files(_settings(host))


def _ask_as_ssh_would(transport: paramiko.Transport, checked: str, host: Host) -> None:
    """Prefer the kinds of key that known_hosts has, so that a changed one is seen as changed."""
    kinds = {
        one.kind for one in knownhosts.keys_for(checked, knownhosts.read(known_hosts_files(host)))
    }
    security = transport.get_security_options()
    security.key_types = sorted(security.key_types, key=lambda kind: kind not in kinds)


def _settings(host: Host) -> Mapping[str, Any]:
    """What ssh itself makes of its configuration for this host (`ssh -G`)."""
    assert host.openssh is not None
    try:
        done = subprocess.run(
            ["ssh", "-G", *_config_option(host), "--", host.openssh],
            capture_output=True,
            timeout=_DEADLINE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unreachable(f"`ssh -G {host.openssh}` failed: {error}") from error
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _config_option(host: Host) -> list[str]:
    return ["-F", str(Path(host.ssh_config).expanduser())] if host.ssh_config else []


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""
