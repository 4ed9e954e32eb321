"""Repositories inside the working copy: submodules and plain clones, taken in by content.

Their trees are made in their own repositories; the objects are then copied into the outer one, so
that `refs/orch/<run-id>` keeps the whole tree in one place.
"""

from __future__ import annotations

from orchestrator.errors import SourceError
from orchestrator.source import repository
from orchestrator.source.git import Git
from orchestrator.source.repository import Repository


def open_inner(outer: Repository, path: str) -> Repository | None:
    """The repository at a path of the working copy, or None when it is not checked out."""
    top = outer.top / path
    if not (top / ".git").exists():
        return None
    inner = repository.find(top)
    if inner.object_format != outer.object_format:
        raise SourceError(
            f"`{path}` names objects by {inner.object_format}, the outer repository by "
            f"{outer.object_format}",
            expected="one object format",
            fix="add it to .gitignore, or copy its files in",
        )
    return inner


def import_tree(inner: Repository, outer: Repository, tree: str) -> None:
    """Copy the objects of a tree from the inner repository to the outer one."""
    if outer.git.run("cat-file", "-e", tree, check=False).returncode == 0:
        return
    objects = inner.git.run("rev-list", "--objects", "--no-object-names", tree).stdout
    pack = inner.git.run("pack-objects", "-q", "--stdout", feed=objects).stdout
    outer.git.run("unpack-objects", "-q", feed=pack)


def graft(git: Git, path: str, tree: str, object_format: str) -> None:
    """Put a tree at a path of the index, in the place of a submodule's entry."""
    zero = "0" * (64 if object_format == "sha256" else 40)
    git.run("update-index", "-z", "--index-info", feed=f"0 {zero}\t{path}\0".encode())
    git.run("read-tree", f"--prefix={path}/", tree)
