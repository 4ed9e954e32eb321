"""The `ssh:` carrier: fabric's view of the ssh config, paramiko's transport, our host key check.

fabric accepts any host key and has its own way with commands, time-outs and files; none of that is
used. From it come the address, the user, the jump hosts and the credentials; the rest is one
channel with a window that fills a long fat link.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST

from orchestrator.errors import (
    AuthenticationFailed,
    InputError,
    OrchError,
    Unreachable,
)
from orchestrator.link import hostkeys, knownhosts, pipe
from orchestrator.link.bootstrap import COMMAND
from orchestrator.spec.hosts import Host

# It logs a broken connection on standard error, in front of our own words on it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# Five times the rate of paramiko's defaults on a fast link: fewer, larger packets and no waiting.
WINDOW_BYTES = 64 << 20
PACKET_BYTES = 256 << 10
KEEPALIVE_S = 10
_STDERR_SHOWN = 2000
_READ_BYTES = 4 << 20
# Authenticated encryption in one pass: half as fast again as the default beside its separate MAC.
_FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")


class SshPipe:
    """One channel on one connection."""

    def __init__(self, connection: fabric.Connection, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._is_shared = False
        transport = connection.client.get_transport()
        assert transport is not None, "the connection is open"
        transport.set_keepalive(KEEPALIVE_S)
        self._channel = transport.open_session(
            window_size=WINDOW_BYTES, max_packet_size=PACKET_BYTES, timeout=deadline_s
        )
        # For what is sent; a host may well be silent for longer.
        self._channel.settimeout(pipe.STALL_S)
        self._held = memoryview(b"")
        self._start(COMMAND)

    def _start(self, command: str) -> None:
        """`exec` without waiting for its confirmation, which would cost a round trip.

        What follows is in order behind the request. A server that refuses it closes the channel,
        and then the agent's greeting does not come.
        """
        request = paramiko.Message()
        request.add_byte(cMSG_CHANNEL_REQUEST)
        request.add_int(self._channel.remote_chanid)
        request.add_string("exec")
        request.add_boolean(False)
        request.add_string(command)
        self._channel.transport._send_user_message(request)

    def read(self, count: int) -> bytes:
        while not self._held:
            # paramiko moves what is left in its buffer at every read: take all there is at once.
            try:
                heard = self._channel.recv(_READ_BYTES)
            except TimeoutError:
                continue
            except (OSError, EOFError):
                return b""
            if not heard:
                return b""
            self._held = memoryview(heard)
        part, self._held = self._held[:count], self._held[count:]
        return bytes(part)

    def write(self, data: bytes) -> None:
        self._channel.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
            if not self._is_shared:
                self._connection.close()

    def again(self) -> SshPipe | None:
        try:
            fresh = SshPipe(self._connection, self._deadline_s)
        except (paramiko.SSHException, OSError, EOFError):
            return None
        self._is_shared = True
        return fresh

    def is_alive(self) -> bool:
        return bool(self._channel.transport.is_active()) and not self._channel.closed

    def last_words(self) -> str:
        if not self._channel.recv_stderr_ready():
            return ""
        said = bytes(self._channel.recv_stderr(_STDERR_SHOWN))
        return said.decode("utf-8", "replace").strip()

    def exit_code(self) -> int | None:
        # It may come after the end of the output, and is -1, made up, when the connection is lost.
        if (
            not self._channel.status_event.wait(pipe.CLOSE_DEADLINE_S)
            or self._channel.exit_status < 0
        ):
            return None
        return int(self._channel.exit_status)


def open_pipe(name: str, host: Host) -> SshPipe:
    """Connect, check the host key, authenticate, start the receiver.

    Raises:
        HostKeyUnknown, HostKeyChanged: see there; nothing was sent to the host.
        AuthenticationFailed: it refused every key we have.
        Unreachable: no connection within the deadline.
    """
    assert host.ssh is not None
    connection = _connection(name, host, host.ssh)
    try:
        connection.open()
        return SshPipe(connection, host.connect_timeout)
    except OrchError:
        connection.close()
        raise
    except paramiko.AuthenticationException as error:
        raise AuthenticationFailed(
            f"`{name}` refused us as `{connection.user}`: {error}",
            expected="a key in the agent or in ~/.ssh that the host knows",
            fix=f"`ssh-copy-id {host.ssh}`, or `openssh:` for passwords, MFA and certificates",
        ) from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise Unreachable(
            f"no connection to `{name}` ({connection.host}:{connection.port}): {_why(error)}",
            fix=f"try `ssh {host.ssh} true`; `orch doctor {name}` says more",
        ) from error


def _connection(name: str, host: Host, address: str) -> fabric.Connection:
    config = _config(host)
    connection = fabric.Connection(
        address,
        config=config,
        connect_timeout=max(1, round(host.connect_timeout)),
        connect_kwargs={},
    )
    if connection.ssh_config.get("proxyjump", "").lower() == "none":
        # `ProxyJump none` means no jump host; fabric would look for a host of that name.
        connection.gateway = None
    hop: Any = connection
    while isinstance(hop, fabric.Connection):
        _harden(hop, name, host)
        hop = hop.gateway
    return connection


def _config(host: Host) -> fabric.Config:
    """fabric's configuration from ssh config files alone, not from its own files or variables."""
    chosen = Path(host.ssh_config).expanduser() if host.ssh_config else None
    if chosen is not None and not chosen.is_file():
        raise InputError(f"`ssh_config: {host.ssh_config}` is not a file")
    config = fabric.Config(lazy=True, runtime_ssh_path=str(chosen) if chosen else None)
    config.load_ssh_config()
    return config


def _harden(connection: fabric.Connection, name: str, host: Host) -> None:
    """Our host key check and transport for one hop."""
    settings = connection.ssh_config
    alias = settings.get("hostkeyalias")
    checked = alias or knownhosts.host_name(connection.host, connection.port)
    known = knownhosts.read(hostkeys.known_hosts_files(settings))
    accepted = knownhosts.keys_for(checked, known)
    connection.client.set_missing_host_key_policy(_Check(name, checked, known))
    connection.connect_kwargs.update(
        transport_factory=_transport_factory([one.kind for one in accepted]),
        banner_timeout=host.connect_timeout,
        auth_timeout=host.connect_timeout,
        channel_timeout=host.connect_timeout,
    )
    if settings.get("identitiesonly", "no").lower() == "yes":
        connection.connect_kwargs["allow_agent"] = False
        connection.connect_kwargs["look_for_keys"] = "identityfile" not in settings


class _Check(paramiko.MissingHostKeyPolicy):
    """Asked for every key, since paramiko is given no known keys of its own."""

    def __init__(self, name: str, checked: str, known: list[knownhosts.KnownKey]) -> None:
        self._name = name
        self._checked = checked
        self._known = known

    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        hostkeys.check(self._name, self._checked, key.get_name(), key.asbytes(), self._known)


def _transport_factory(preferred: list[str]) -> Any:
    """Transports with a large window that ask first for the kinds of key we know."""

    def make(sock: Any, **options: Any) -> paramiko.Transport:
        with contextlib.suppress(OSError, AttributeError):
            # Our frames are whole thoughts; Nagle would hold the last part of each back.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(
            sock,
            default_window_size=WINDOW_BYTES,
            default_max_packet_size=PACKET_BYTES,
            **options,
        )
        security = transport.get_security_options()
        fast = [cipher for cipher in _FAST_CIPHERS if cipher in security.ciphers]
        security.ciphers = [*fast, *(c for c in security.ciphers if c not in fast)]
        security.key_types = sorted(security.key_types, key=lambda kind: not _known(kind))
        return transport

    def _known(kind: str) -> bool:
        # An `ssh-rsa` key signs with any of the rsa algorithms.
        return kind in preferred or ("rsa" in kind and "ssh-rsa" in preferred)

    return make


def fetch_host_key(host: Host) -> tuple[str, str, bytes]:
    """The key a host shows, before any authentication: (name in known_hosts, kind, key)."""
    assert host.ssh is not None
    connection = _connection("it", host, host.ssh)
    alias = connection.ssh_config.get("hostkeyalias")
    checked = alias or knownhosts.host_name(connection.host, connection.port)
    try:
        if isinstance(connection.gateway, fabric.Connection):
            sock: Any = connection.open_gateway()
        else:
            sock = socket.create_connection(
                (connection.host, connection.port), host.connect_timeout
            )
        transport = paramiko.Transport(sock)
        transport.start_client(timeout=host.connect_timeout)
        key = transport.get_remote_server_key()
        transport.close()
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise Unreachable(
            f"no connection to {connection.host}:{connection.port}: {_why(error)}"
        ) from error
    return checked, key.get_name(), key.asbytes()


def trust_file(host: Host) -> Path:
    """The known_hosts file that a newly trusted key is written to."""
    assert host.ssh is not None
    return hostkeys.known_hosts_files(_connection("it", host, host.ssh).ssh_config)[0]


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    # paramiko's error for all addresses of a host has those of each, and no number of its own.
    each = getattr(error, "errors", None)
    if isinstance(each, dict) and each:
        return ", ".join(sorted({_why(one) for one in each.values()}))
    return str(error) or type(error).__name__
