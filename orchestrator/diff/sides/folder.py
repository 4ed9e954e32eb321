"""A directory on disk, or one file of it: walked without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.diff.blob import Blob
from orchestrator.diff.sides.side import MAX_FILES, Entry
from orchestrator.errors import EvidenceError

# Git's own files are no artifacts of anything.
_LEFT_OUT = frozenset({".git"})


@dataclass(frozen=True)
class Folder:
    """All files below a directory; `only` names the one that is meant."""

    path: Path
    only: str = ""

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        if self.only:
            return {self.only: _entry(self.path / self.only)}
        found: dict[str, Entry] = {}
        for top, folders, names in os.walk(self.path, followlinks=False, onerror=_refuse):
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
            linked = [name for name in folders if (Path(top) / name).is_symlink()]
            for name in (*sorted(names), *linked):
                path = Path(top) / name
                found[path.relative_to(self.path).as_posix()] = _entry(path)
            if len(found) > MAX_FILES:
                raise EvidenceError(
                    f"`{self.path}` holds more than {MAX_FILES} files",
                    expected="a run, a bundle or a directory of artifacts",
                )
        return found

    def blob(self, path: str, scratch: Path) -> Blob:
        return Blob(self.path / path, self.entries[path].size, scratch=scratch)


def _entry(path: Path) -> Entry:
    try:
        facts = path.lstat()
    except OSError as error:
        return Entry(0, f"cannot be looked at: {error.strerror}")
    if stat.S_ISLNK(facts.st_mode):
        return Entry(0, "is a link, which is not followed")
    if not stat.S_ISREG(facts.st_mode):
        return Entry(0, "is not a plain file")
    return Entry(facts.st_size)


def _refuse(error: OSError) -> None:
    raise EvidenceError(f"cannot list `{error.filename}`: {error.strerror}") from error
