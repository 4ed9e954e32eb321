"""What a side of a comparison is: named files, each with a size and a way to its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from orchestrator.diff.blob import Blob

MAX_FILES = 200_000


@dataclass(frozen=True)
class Entry:
    """One file. `problem` says why it must not be read; `content` names equal contents alike."""

    size: int
    problem: str = ""
    content: str = ""


class Files(Protocol):
    """The files of a side by path, with forward slashes."""

    @property
    def entries(self) -> Mapping[str, Entry]: ...

    def blob(self, path: str, scratch: Path) -> Blob:
        """The content of a file; a copy goes into `scratch` where it cannot be read in place.

        Raises:
            Unreadable: it cannot be had.
        """


@dataclass(frozen=True)
class Side:
    """One of the two things that are compared.

    `kind` is run, bundle, directory, revision or file. `prefix` is cut off the paths of its
    artifacts: the files of a run lie under `evidence/`, in its bundle they lie at the top.
    """

    name: str
    kind: str
    files: Files
    prefix: str = ""
    single: str = field(default="", kw_only=True)
    """The one file that is meant, when it is one."""

    @cached_property
    def artifacts(self) -> Mapping[str, Entry]:
        """The files to compare, by the path they have in a bundle; asked for once a pair."""
        return {
            path.removeprefix(self.prefix): entry
            for path, entry in self.files.entries.items()
            if path.startswith(self.prefix)
        }

    def blob(self, artifact: str, scratch: Path) -> Blob:
        return self.files.blob(self.prefix + artifact, scratch)
