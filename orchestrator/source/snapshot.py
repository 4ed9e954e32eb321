"""The working copy as one exact git tree, without touching the user's index, stash or files.

A copy of the index takes in what git would commit with `git add -A`: changed, new and deleted
files, line endings and modes as the attributes and the index say. Three things differ from a
commit on purpose: files under git-lfs and submodules go in by content, and files whose changes
git was told to overlook are looked at all the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import SourceError
from orchestrator.source import nested, repository, tree
from orchestrator.source.git import Git, name_list
from orchestrator.source.repository import Code, Repository
from orchestrator.source.size import check_new_files

_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
GITLINK = "160000"


@dataclass(frozen=True)
class Snapshot:
    """One tree, ready to travel.

    `manifest` is `git ls-tree -r -z` of the tree; `notes` are sentences about what a person might
    expect on the host and will not find there.
    """

    repository: Repository
    tree: str
    manifest: bytes
    code: Code
    notes: tuple[str, ...] = ()


def take(start: Path, *, include: Sequence[str] = (), max_new_bytes: int) -> Snapshot:
    """Snapshot the working copy that `start` lies in.

    Args:
        include: globs of ignored files that travel all the same.
        max_new_bytes: most bytes of changed and new files that git may have to store.

    Raises:
        SourceError: there is no working copy, a link leaves the tree, a git-lfs file is only a
            pointer, the new files are too large, or git failed.
    """
    found = repository.find(start)
    made = _make_tree(found, include, max_new_bytes)
    manifest = tree.listing(found.git, made.tree)
    _refuse_escaping_links(found.git, tree.entries(manifest))
    return Snapshot(found, made.tree, manifest, _code(found, made), made.notes)


def unsent(found: Repository) -> list[str]:
    """What lies in the working copy and does not travel: files and directories git ignores."""
    return found.git.names(
        "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"
    )


@dataclass(frozen=True)
class _Made:
    tree: str
    status: repository.Status
    submodules: dict[str, str]
    notes: tuple[str, ...]


def _make_tree(found: Repository, include: Sequence[str], max_new_bytes: int) -> _Made:
    state = repository.status(found)
    check_new_files(found.top, (*state.changed, *state.untracked), max_new_bytes)
    with _private_index(found) as git:
        tracked = list(_tracked(git))
        inner = [entry.path for entry in tracked if entry.mode == GITLINK]
        inner += [name.rstrip("/") for name in state.untracked if name.endswith("/")]
        overlooked = _look_again(git, found.top, tracked)
        if state.dirty or overlooked:
            _add_all(git, inner)
        if include:
            _add_ignored(git, found.top, include, max_new_bytes)
        _add_lfs_content(git, found.top)
        submodules, notes = _add_inner(git, found, inner, max_new_bytes)
        made = git.text("write-tree")
    return _Made(made, state, submodules, tuple(notes))


@contextmanager
def _private_index(found: Repository) -> Iterator[Git]:
    """git with a copy of the index; beside the original, where a split index finds its parts."""
    handle, name = tempfile.mkstemp(prefix="orch-index-", dir=found.git_dir)
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


@dataclass(frozen=True)
class _Tracked:
    tag: str
    mode: str
    path: str


def _tracked(git: Git) -> Iterator[_Tracked]:
    for record in git.names("ls-files", "-z", "-s", "-v"):
        head, _, path = record.partition("\t")
        tag, mode, *_ = head.split(" ")
        yield _Tracked(tag, mode, path)


def _look_again(git: Git, top: Path, tracked: Iterable[_Tracked]) -> bool:
    """Forget `assume-unchanged` and `skip-worktree` for files that are there; were there any?"""
    assumed, skipped = [], []
    for entry in tracked:
        if entry.tag.islower():
            assumed.append(entry.path)
        if entry.tag in ("S", "s") and os.path.lexists(top / entry.path):
            skipped.append(entry.path)
    for option, names in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
        if names:
            git.run("update-index", option, "-z", "--stdin", feed=name_list(names))
    return bool(assumed or skipped)


def _add_all(git: Git, inner: Sequence[str]) -> None:
    """`git add -A`, without the repositories inside this one: `nested` takes those by content."""
    without = [f":(exclude,top,literal){name}" for name in inner]
    git.run("add", "-A", *_FROM_STDIN, feed=name_list([".", *without]))


def _add_ignored(git: Git, top: Path, include: Sequence[str], max_new_bytes: int) -> None:
    for pattern in include:
        spec = f":(top,glob){pattern}"
        listed = git.names("ls-files", "-z", "--others", "--", spec)
        if not listed and not git.names("ls-files", "-z", "--", spec):
            raise SourceError(
                f"`include: {pattern}` matches no file",
                expected="a glob relative to the top of the working tree",
                fix="correct the pattern, or build the files first",
            )
        check_new_files(top, listed, max_new_bytes)
        git.run("add", "-f", "--", spec)


def _add_lfs_content(git: Git, top: Path) -> None:
    """Put files under git-lfs in by content; an unchanged one stands in the index as a pointer."""
    names = git.names("ls-files", "-z", "--", ":(top,attr:filter=lfs)")
    present = [name for name in names if (top / name).is_file()]
    if not present:
        return
    pointers = [name for name in present if _is_lfs_pointer(top / name)]
    if pointers:
        listed = ", ".join(f"`{name}`" for name in pointers[:5])
        more = f" and {len(pointers) - 5} more" if len(pointers) > 5 else ""
        raise SourceError(
            f"git-lfs has not fetched {listed}{more}: only a pointer is here",
            expected="the content",
            fix="git lfs pull",
        )
    for command in (("rm", "-q", "--cached"), ("add", "-f")):
        git.run("--literal-pathspecs", *command, *_FROM_STDIN, feed=name_list(present))


def _is_lfs_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


def _add_inner(
    git: Git, found: Repository, inner: Sequence[str], max_new_bytes: int
) -> tuple[dict[str, str], list[str]]:
    """Submodules and other repositories inside this one, by content."""
    revisions: dict[str, str] = {}
    notes = []
    for path in inner:
        child = nested.open_inner(found, path)
        if child is None:
            notes.append(f"the submodule `{path}` is not checked out here and is not sent")
            continue
        made = _make_tree(child, (), max_new_bytes)
        nested.import_tree(child, found, made.tree)
        nested.graft(git, path, made.tree, found.object_format)
        dirty = "+dirty" if made.status.dirty else ""
        revisions[path] = f"{made.status.revision or 'no commit'}{dirty}"
        revisions.update({f"{path}/{name}": rev for name, rev in made.submodules.items()})
        notes += [f"in `{path}`: {note}" for note in made.notes]
    return revisions, notes


def _refuse_escaping_links(git: Git, found: Sequence[tree.Entry]) -> None:
    leaving = tree.escaping_links(git, found)
    if not leaving:
        return
    listed = "; ".join(f"`{path}` -> `{target}`" for path, target in leaving[:5])
    more = f"; and {len(leaving) - 5} more" if len(leaving) > 5 else ""
    raise SourceError(
        f"symbolic links leave the tree: {listed}{more}",
        expected="links to files of the tree: the host has no such place",
        fix="make the link relative and inside the tree, or add it to .gitignore",
    )


def _code(found: Repository, made: _Made) -> Code:
    state = made.status
    return Code(
        revision=state.revision,
        branch=state.branch,
        dirty=state.dirty,
        changed=len(state.changed),
        untracked=len(state.untracked),
        in_progress=found.in_progress,
        remote=repository.remote_url(found),
        submodules=made.submodules,
    )
