"""What changed between the source trees of two runs, as the local repository keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import InputError, SourceError
from orchestrator.source import anchor, repository
from orchestrator.source.repository import Repository


@dataclass(frozen=True)
class FileChange:
    """One file; the counts are None for a binary one."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class CodeDiff:
    """What is known of the two trees.

    `same` is None when a hash is not known. `files` is empty when the trees are the same, and when
    one of them is not in the repository; `note` then says so.
    """

    tree_a: str = ""
    tree_b: str = ""
    files: tuple[FileChange, ...] = ()
    note: str = ""

    @property
    def same(self) -> bool | None:
        if not self.tree_a or not self.tree_b:
            return None
        return self.tree_a == self.tree_b

    @property
    def added(self) -> int:
        return sum(change.added or 0 for change in self.files)

    @property
    def removed(self) -> int:
        return sum(change.removed or 0 for change in self.files)

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"tree_a": self.tree_a, "tree_b": self.tree_b, "same": self.same}
        if self.note:
            shown["note"] = self.note
        shown["files"] = [vars(change) for change in self.files]
        return shown


def compare(tree_a: str, tree_b: str) -> CodeDiff:
    """Compare two trees by their hashes, in the repository around the working directory."""
    if not tree_a or not tree_b:
        return CodeDiff(tree_a, tree_b, note="the tree of one side is not known")
    if tree_a == tree_b:
        return CodeDiff(tree_a, tree_b)
    try:
        found = repository.find(Path.cwd())
        return CodeDiff(tree_a, tree_b, _changed_files(found, tree_a, tree_b))
    except (InputError, SourceError) as error:
        return CodeDiff(tree_a, tree_b, note=f"the trees cannot be shown here: {error.what}")


def _changed_files(found: Repository, tree_a: str, tree_b: str) -> tuple[FileChange, ...]:
    # Hashes from a bundle are untrusted text; git must not take one for an option or a range.
    for tree in (tree_a, tree_b):
        if not all(char in "0123456789abcdef" for char in tree) or len(tree) not in (40, 64):
            raise InputError(f"`{tree[:80]}` is no hash of a tree")
    options = ("--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    output = anchor.diff(found, tree_a, tree_b, options=options)
    changes = []
    for record in output.split("\0"):
        if record.count("\t") >= 2:
            added, removed, path = record.split("\t", 2)
            binary = added == "-"
            changes.append(
                FileChange(path, None if binary else int(added), None if binary else int(removed))
            )
    return tuple(changes)
