"""What each host was sent last of this project, and so most likely has still.

Only ever a guess, since a sweep may have emptied the host's store: it saves bytes and a question,
and the host's answer decides.
"""

from __future__ import annotations

import hashlib
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


def last(artifacts: Path, place: str) -> Sent | None:
    """What was sent to a place (`Host.place`); None when no visit is known."""
    return _read(artifacts).get(_key(place))


def note(artifacts: Path, place: str, sent: Sent) -> None:
    """Remember what lies there now.

    Raises:
        OSError: the file cannot be written.
    """
    known = _read(artifacts)
    key = _key(place)
    if known.get(key) != sent:
        known[key] = sent
        lines = (f"{one}\t{has.tree}\t{has.agent}\n" for one, has in known.items())
        write_atomically(artifacts / _FILE, "".join(lines))


def _key(place: str) -> str:
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _read(artifacts: Path) -> dict[str, Sent]:
    try:
        lines = (artifacts / _FILE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    fields = (line.split("\t") for line in lines)
    return {key: Sent(*rest) for key, *rest in fields if len(rest) == 2}
