"""`PATH@REV`: a directory or a file as git has it at a revision."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.diff.blob import Blob
from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.sides.side import MAX_FILES, Entry
from orchestrator.errors import EvidenceError, InputError, SourceError
from orchestrator.source import anchor, tree
from orchestrator.source.repository import Repository

_NOT_PLAIN = {
    tree.SYMLINK: "is a link, which is not followed",
    tree.GITLINK: "is a submodule, of which a commit holds no file",
}


@dataclass(frozen=True)
class Revision:
    """The files below `path` (empty: the whole tree) at a revision of a repository."""

    repository: Repository
    path: str
    revision: str

    @cached_property
    def is_file(self) -> bool:
        return any(entry.path == self.path for entry in self._listed)

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        plain = [entry.blob for entry in self._listed if entry.mode not in _NOT_PLAIN]
        sizes = tree.sizes(self.repository.git, dict.fromkeys(plain))
        return {
            self._inner(entry.path): Entry(0, _NOT_PLAIN[entry.mode], entry.blob)
            if entry.mode in _NOT_PLAIN
            else Entry(sizes[entry.blob], content=entry.blob)
            for entry in self._listed
        }

    def blob(self, path: str, scratch: Path) -> Blob:
        wanted = self.entries[path]
        handle, name = tempfile.mkstemp(prefix="git-", dir=scratch)
        try:
            with os.fdopen(handle, "wb") as target:
                for _, _, chunks in tree.read_blobs(self.repository.git, [wanted.content]):
                    for chunk in chunks:
                        target.write(chunk)
        except SourceError as error:
            raise Unreadable(f"git cannot give it: {error.what}") from error
        return Blob(Path(name), wanted.size, scratch=scratch)

    @cached_property
    def _listed(self) -> list[tree.Entry]:
        found = anchor.resolve(self.repository, self.revision)
        below = [
            entry
            for entry in tree.entries(tree.listing(self.repository.git, found))
            if not self.path or entry.path == self.path or entry.path.startswith(f"{self.path}/")
        ]
        if not below:
            raise InputError(
                f"`{self.path}` is not in `{self.revision}`",
                expected="a path, from the top of the repository, of a committed file or directory",
            )
        if len(below) > MAX_FILES:
            raise EvidenceError(f"`{self.path}@{self.revision}` holds {len(below)} files")
        return below

    def _inner(self, path: str) -> str:
        if path == self.path:
            return path.rsplit("/", 1)[-1]
        return path.removeprefix(f"{self.path}/") if self.path else path
