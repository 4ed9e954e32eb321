"""Whether the key a host shows is one that somebody has vouched for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import HostKeyChanged, HostKeyUnknown
from orchestrator.link import knownhosts


def known_hosts_files(settings: Mapping[str, Any]) -> list[Path]:
    """The files an ssh config names, or OpenSSH's defaults; the user's own first."""
    own = settings.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    shared = settings.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts")
    return [Path(name).expanduser() for name in f"{own} {shared}".split() if name != "none"]


def check(name: str, checked: str, kind: str, key: bytes, known: list[knownhosts.KnownKey]) -> None:
    """Accept a key that known_hosts names; refuse any other.

    Raises:
        HostKeyUnknown: no line names this host.
        HostKeyChanged: lines name it, with other keys; or the key is revoked.
    """
    banned = knownhosts.revoked(key, known)
    if banned is not None:
        raise HostKeyChanged(
            f"the key of `{name}` ({knownhosts.fingerprint(key)}) is revoked by "
            f"{banned.file}:{banned.line}",
            fix="do not connect; ask whoever runs the host",
        )
    accepted = knownhosts.keys_for(checked, known)
    if any(one.key == key for one in accepted):
        return
    shown = f"{kind} {knownhosts.fingerprint(key)}"
    if accepted:
        # The line of the same kind of key is the one that was replaced.
        old = next((one for one in accepted if one.kind == kind), accepted[0])
        raise HostKeyChanged(
            f"the host key of `{name}` has changed: {checked} shows {shown}, but "
            f"{old.file}:{old.line} has {old.kind} {knownhosts.fingerprint(old.key)}",
            expected="the key you trusted before: somebody may be in between",
            fix=f"ask whoever runs the host; only then remove line {old.line} of {old.file} and "
            f"run `orch hosts trust {name}`",
        )
    raise HostKeyUnknown(
        f"nobody has vouched for the host key of `{name}`: {checked} shows {shown}",
        expected="that fingerprint, confirmed by whoever runs the host",
        fix=f"orch hosts trust {name}",
    )
