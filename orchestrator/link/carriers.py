"""How each kind of host is reached. A carrier gives a pipe to the receiver on the host."""

from __future__ import annotations

import importlib
import os
import sys

from orchestrator.errors import InputError
from orchestrator.link.bootstrap import ARGV, PYTHON_CODE
from orchestrator.link.pipe import Pipe, ProcessPipe
from orchestrator.spec.hosts import Host


def open_pipe(name: str, host: Host) -> Pipe:
    """A pipe to the receiver on a host, which still waits for the agent.

    Raises:
        HostError: no connection, an unknown or changed host key, no credentials accepted.
        InputError: this machine cannot be that host.
    """
    if host.carrier == "local":
        return _local()
    if host.carrier == "via":
        assert host.via is not None
        return ProcessPipe([*host.via, *ARGV])
    if host.carrier == "openssh":
        from orchestrator.link import openssh

        return openssh.open_pipe(host)
    # The other carriers do without paramiko.
    from orchestrator.link import sshclient

    return sshclient.open_pipe(name, host)


def load(host: Host) -> None:
    """Import what the carrier of this host needs: a fifth of a second for paramiko."""
    if host.carrier == "ssh":
        importlib.import_module("orchestrator.link.sshclient")


def first_line(host: Host) -> str | None:
    """The interpreter the host's shell is to start; None where we start it ourselves."""
    return None if host.carrier == "local" else host.agent_python


def _local() -> Pipe:
    if os.name != "posix":
        raise InputError(
            "the local host needs Linux or macOS",
            expected="`ssh:`, `openssh:` or `via:` in hosts.yaml",
            fix="run on a remote host: `orch run EXPERIMENT --host NAME`",
        )
    return ProcessPipe([sys.executable, "-c", PYTHON_CODE])
