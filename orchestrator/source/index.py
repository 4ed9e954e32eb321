"""A copy of the index that is made to hold what lies in the working copy.

The user's own index is only read. Every step here changes the copy, in the order of this file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import SourceError
from orchestrator.source.git import Git, name_list
from orchestrator.source.repository import Repository

_PREFIX = "orch-index-"
# No snapshot takes so long: git's commands have their deadline.
_FORGOTTEN_S = 86_400.0
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@contextmanager
def private(found: Repository) -> Iterator[Git]:
    """git with a copy of the index; beside the original, where a split index finds its parts.

    Raises:
        SourceError: the git directory cannot be written.
    """
    _remove_forgotten(found.git_dir)
    try:
        handle, name = tempfile.mkstemp(prefix=_PREFIX, dir=found.git_dir)
    except OSError as error:
        raise SourceError(
            f"cannot write into {found.git_dir}: {error.strerror}",
            expected="a repository of yours: the tree of a run is kept in it",
        ) from error
    os.close(handle)
    index = Path(name)
    try:
        if found.index.exists():
            shutil.copy2(found.index, index)
        else:
            index.unlink()
        yield found.git.with_index(index)
    finally:
        index.unlink(missing_ok=True)
        index.with_name(index.name + ".lock").unlink(missing_ok=True)


def _remove_forgotten(git_dir: Path) -> None:
    """Indexes of ours whose process was killed before it could remove them.

    Their time of modification is that of the user's own index.
    """
    for path in git_dir.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_ctime > _FORGOTTEN_S:
                path.unlink()


@dataclass(frozen=True)
class Tracked:
    """One entry of the index: the tag that `git ls-files -v` shows, its mode, its path."""

    tag: str
    mode: str
    path: str


def tracked(git: Git) -> list[Tracked]:
    """Every entry; a path in conflict has several."""
    found = []
    for record in git.names("ls-files", "-z", "-s", "-v"):
        head, _, path = record.partition("\t")
        tag, mode, *_ = head.split(" ")
        found.append(Tracked(tag, mode, path))
    return found


def look_again(git: Git, top: Path, entries: Iterable[Tracked]) -> bool:
    """Forget `assume-unchanged` and `skip-worktree` for files that are there; were there any?"""
    assumed, skipped = [], []
    for entry in entries:
        if entry.tag.islower():
            assumed.append(entry.path)
        if entry.tag in ("S", "s") and os.path.lexists(top / entry.path):
            skipped.append(entry.path)
    for option, names in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
        if names:
            git.run("update-index", option, "-z", "--stdin", feed=name_list(names))
    return bool(assumed or skipped)


def clear(git: Git, paths: Sequence[str], object_format: str) -> None:
    """Take paths out, with everything below them: a directory, a file, or a submodule."""
    if paths:
        names = git.names("--literal-pathspecs", "ls-files", "-z", "--", *paths)
        forget(git, names, object_format)


def forget(git: Git, names: Iterable[str], object_format: str) -> None:
    """Take files out, so that `add` reads them even where git saw no change."""
    zero = b"0" * (64 if object_format == "sha256" else 40)
    lines = [b"0 " + zero + b"\t" + os.fsencode(name) + b"\0" for name in names]
    if lines:
        git.run("update-index", "-z", "--index-info", feed=b"".join(lines))


def files_below(git: Git, paths: Sequence[str]) -> list[str]:
    """Files below some directories that the index does not know and git does not ignore."""
    if not paths:
        return []
    options = ("-z", "--others", "--exclude-standard", "--")
    return git.names("--literal-pathspecs", "ls-files", *options, *paths)


def ignored(git: Git, include: Iterable[str]) -> list[str]:
    """The files that globs name beyond the index; a repository among them ends in a slash.

    Raises:
        SourceError: a glob matches nothing at all.
    """
    found: dict[str, None] = {}
    for pattern in include:
        spec = f":(top,glob){pattern}"
        listed = git.names("ls-files", "-z", "--others", "--", spec)
        if not listed and not git.names("ls-files", "-z", "--", spec):
            raise SourceError(
                f"`include: {pattern}` matches no file",
                expected="a glob relative to the top of the working tree",
                fix="correct the pattern, or build the files first",
            )
        found.update(dict.fromkeys(listed))
    return list(found)


def add(git: Git, names: Sequence[str]) -> None:
    """Make the index hold these files as they are: new, changed, ignored, or not there any more."""
    if names:
        options = ("--add", "--remove", "--replace", "-z", "--stdin")
        git.run("update-index", *options, feed=name_list(names))


def lfs_files(git: Git, top: Path) -> list[str]:
    """Tracked files under git-lfs; the index may hold pointers in their place."""
    names = git.names("ls-files", "-z", "--", ":(top,attr:filter=lfs)")
    return [name for name in names if (top / name).is_file()]


def refuse_lfs_pointers(git: Git, top: Path, names: Iterable[str]) -> None:
    """Raise when git-lfs has never fetched the content of one of these files."""
    suspects = [name for name in names if _is_lfs_pointer(top / name)]
    if not suspects:
        return
    # Others may hold such a text for reasons of their own. The answer: path, attribute, value.
    told = git.names("check-attr", "-z", "--stdin", "filter", feed=name_list(suspects))
    pointers = [name for name, value in zip(told[::3], told[2::3], strict=True) if value == "lfs"]
    if pointers:
        listed = ", ".join(f"`{name}`" for name in pointers[:5])
        more = f" and {len(pointers) - 5} more" if len(pointers) > 5 else ""
        raise SourceError(
            f"git-lfs has not fetched {listed}{more}: only a pointer is here",
            expected="the content",
            fix="git lfs pull",
        )


def _is_lfs_pointer(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER
