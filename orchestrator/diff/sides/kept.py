"""A run that was put away: its records as files, its evidence still in the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.diff.blob import Blob
from orchestrator.diff.sides.bundle import Bundle
from orchestrator.diff.sides.side import Entry, Files

BUNDLE = "bundle.zip"
EVIDENCE = "evidence/"


@dataclass(frozen=True)
class Kept:
    """The files of `records`, and those of the bundle among them as if it were unpacked."""

    records: Files
    bundle: Bundle

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        own = {path: entry for path, entry in self.records.entries.items() if path != BUNDLE}
        return own | {f"{EVIDENCE}{path}": entry for path, entry in self.bundle.entries.items()}

    def blob(self, path: str, scratch: Path) -> Blob:
        inner = path.removeprefix(EVIDENCE)
        if inner != path and inner in self.bundle.entries:
            return self.bundle.blob(inner, scratch)
        return self.records.blob(path, scratch)
