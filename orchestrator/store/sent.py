"""Which tree of this project each host was sent last: what it most likely has still.

Only ever a guess, since a sweep or a new root may have emptied the host's store: it saves a
question, and the host's answer decides.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.store.rundir import write_atomically

UNKNOWN = "?"
_FILE = ".visited"


def last_tree(artifacts: Path, host: str) -> str | None:
    """The tree; `UNKNOWN` when an upload was cut; None when the host was never visited."""
    return _read(artifacts).get(host)


def note(artifacts: Path, host: str, tree: str) -> None:
    """Remember that a host has this tree, or that nobody can tell (`UNKNOWN`)."""
    known = _read(artifacts)
    if known.get(host) != tree:
        known[host] = tree
        lines = (f"{name}\t{last}\n" for name, last in known.items())
        write_atomically(artifacts / _FILE, "".join(lines))


def _read(artifacts: Path) -> dict[str, str]:
    try:
        lines = (artifacts / _FILE).read_text("utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    parts = (line.partition("\t") for line in lines)
    return {name: tree or UNKNOWN for name, _, tree in parts}
