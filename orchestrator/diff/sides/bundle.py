"""A zip: its members are read where they lie, and none of them is unpacked for its name's sake."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.agent.manifest import FILE_NAME, path_problem
from orchestrator.diff.blob import Blob
from orchestrator.diff.sides.side import MAX_FILES, Entry
from orchestrator.errors import EvidenceError

# Logs of one repeated line shrink a thousandfold and are honest; more than that is a bomb.
_MAX_RATIO = 2000
_ENCRYPTED = 0x1


@dataclass(frozen=True)
class Bundle:
    """The members of a zip; those with an unsafe name or content keep their place and a problem."""

    path: Path

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise EvidenceError(f"`{self.path}` is no whole zip: {error}") from error
        if len(infos) > MAX_FILES:
            raise EvidenceError(f"`{self.path}` holds {len(infos)} files", expected="fewer")
        found: dict[str, Entry] = {}
        for info in infos:
            if info.is_dir():
                continue
            if info.filename in found:
                # Two members of one name: which of them is meant, only its maker knows.
                found[info.filename] = Entry(info.file_size, "stands twice in the zip")
            else:
                found[info.filename] = Entry(info.file_size, _problem(info))
        found.pop(FILE_NAME, None)
        return found

    def blob(self, path: str, scratch: Path) -> Blob:
        return Blob(self.path, self.entries[path].size, path, scratch)


def _problem(info: zipfile.ZipInfo) -> str:
    name = path_problem(info.filename)
    if name:
        return f"has a path that {name}"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "is not a plain file"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.file_size > _MAX_RATIO * max(info.compress_size, 1024):
        return "is packed beyond belief"
    return ""
