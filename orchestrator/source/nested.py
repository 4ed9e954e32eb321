"""Repositories inside the working copy: submodules and plain clones, taken in by content.

Their trees are made in their own repositories; the objects are then copied into the outer one, so
that `refs/orch/<run-id>` keeps the whole tree in one place.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.errors import SourceError
from orchestrator.source import repository
from orchestrator.source.git import Git
from orchestrator.source.repository import Repository


def is_here(outer: Repository, path: str) -> bool:
    """Whether a repository lies at a path; not one that only a link there leads to."""
    place = outer.top / path
    return (place / ".git").exists() and not place.is_symlink()


def paths(outer: Repository, names: Iterable[str]) -> list[str]:
    """Those of some names that are repositories of their own, each once."""
    bare = dict.fromkeys(name.rstrip("/") for name in names)
    return [name for name in bare if is_here(outer, name)]


def open_inner(outer: Repository, path: str) -> Repository:
    """The repository at a path of the working copy.

    Raises:
        SourceError: it names objects otherwise than the outer one, or its git directory is gone.
    """
    inner = repository.find(outer.top / path)
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


def graft(git: Git, path: str, tree: str) -> None:
    """Put a tree at a path of the index, where nothing is."""
    git.run("read-tree", f"--prefix={path}/", tree)
