"""What each host was sent last of this project, and so most likely has still.

Only ever a guess, since a sweep or a new root may have emptied the host's store: it saves bytes and
a question, and the host's answer decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.store.rundir import write_atomically

_FILE = ".visited"
_UNKNOWN = "?"


@dataclass(frozen=True)
class Sent:
    """The tree, and the name of the agent; `?` after an upload that was cut."""

    tree: str = _UNKNOWN
    agent: str = _UNKNOWN


def last(artifacts: Path, host: str) -> Sent | None:
    """What a host was sent; None when it was never visited."""
    return _read(artifacts).get(host)


def note(artifacts: Path, host: str, sent: Sent) -> None:
    """Remember what a host has now."""
    known = _read(artifacts)
    if known.get(host) != sent:
        known[host] = sent
        lines = (f"{name}\t{one.tree}\t{one.agent}\n" for name, one in known.items())
        write_atomically(artifacts / _FILE, "".join(lines))


def _read(artifacts: Path) -> dict[str, Sent]:
    try:
        lines = (artifacts / _FILE).read_text("utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    fields = (line.split("\t") for line in lines)
    return {name: Sent(*rest) for name, *rest in fields if len(rest) <= 2}
