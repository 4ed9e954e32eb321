"""The processes on a GPU, and which of them are not ours."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any, Collection, Dict, Iterable, List, Optional, Tuple

from orchestrator.agent.environment.field import Reading, known, unknown
from orchestrator.agent.environment.redact import redacted

# A CUDA context alone holds more than this; the driver's own bookkeeping holds less.
UNEXPLAINED_BYTES = 256 << 20

# A program may rewrite its name to its whole command line: keep the program, drop its options.
_OPTIONS = re.compile(r"\s-.*", re.DOTALL)


@dataclass(frozen=True)
class Process:
    """One process on one GPU. `kind`: C computes, G draws, C+G does both. None: not told."""

    pid: Optional[int]
    name: Optional[str]
    memory: Optional[int]
    kind: str = ""

    def to_value(self) -> Dict[str, Any]:
        name = program(self.name) if self.name else None
        return {"pid": self.pid, "name": name, "memory": self.memory, "type": self.kind}


def program(command: str) -> str:
    return redacted(_OPTIONS.sub("", command.strip()))[:200]


def joined(processes: Iterable[Process]) -> List[Dict[str, Any]]:
    """One entry a process: one that computes and draws is listed twice by the driver."""
    found: Dict[Tuple[Optional[int], int], Process] = {}
    for place, process in enumerate(processes):
        # Entries without a pid cannot be told to be the same.
        key = (process.pid, place if process.pid is None else 0)
        first = found.setdefault(key, process)
        if first.kind != process.kind:
            found[key] = replace(first, kind="C+G")
    return [process.to_value() for process in found.values()]


def foreign(listing: Reading, memory_used: Reading, own_pids: Collection[int]) -> Reading:
    """The processes of `listing` that are not ours.

    Memory in use that no listed process explains is a process we cannot see (another container's),
    and then nobody can say that the GPU is free.
    """
    if not listing.known:
        return listing
    others = [entry for entry in listing.value if entry["pid"] not in own_pids]
    hidden = _unexplained_bytes(listing.value, memory_used)
    if not others and hidden > UNEXPLAINED_BYTES:
        return unknown(
            listing.source,
            f"{hidden >> 20} MiB are in use by no listed process: one cannot be seen from here",
        )
    named = [
        entry if entry["name"] else dict(entry, name=_name_of(entry["pid"])) for entry in others
    ]
    return known(named, listing.source, _not_here(named))


def _unexplained_bytes(listed: List[Dict[str, Any]], memory_used: Reading) -> int:
    sizes = [entry["memory"] for entry in listed]
    if not memory_used.known or None in sizes:
        return 0
    return int(memory_used.value - sum(sizes))


def _not_here(entries: List[Dict[str, Any]]) -> str:
    gone = [entry["pid"] for entry in entries if not os.path.exists(f"/proc/{entry['pid']}")]
    if not gone:
        return ""
    pids = ", ".join(map(str, gone))
    return f"pid {pids} is not known here: it belongs to another container, or has just ended"


def _name_of(pid: Optional[int]) -> Optional[str]:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() or None
    except OSError:
        return None
