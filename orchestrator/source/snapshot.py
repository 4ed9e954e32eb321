"""The working copy as one exact git tree, without touching the user's index, stash or files.

A copy of the index takes in what git would commit with `git add -A`: changed, new and deleted
files, line endings and modes as the attributes and the index say. Three things differ from a
commit on purpose: files under git-lfs and submodules go in by content, and files whose changes
git was told to overlook are looked at all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import SourceError
from orchestrator.source import index, nested, repository, tree
from orchestrator.source.git import Git
from orchestrator.source.repository import Code, Repository
from orchestrator.source.size import check_new_files


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
    """A tree, and what the working copy is; `changed_unseen`: git's status does not tell it all."""

    tree: str
    status: repository.Status
    changed_unseen: bool
    submodules: dict[str, str]
    notes: tuple[str, ...]

    @property
    def dirty(self) -> bool:
        return self.status.dirty or self.changed_unseen


def _make_tree(found: Repository, include: Sequence[str], max_new_bytes: int) -> _Made:
    with index.private(found) as git:
        tracked = index.tracked(git)
        overlooked = index.look_again(git, found.top, tracked)
        state = repository.status(found, git=git if overlooked else None)
        links = dict.fromkeys(entry.path for entry in tracked if entry.mode == tree.GITLINK)
        absent = [path for path in links if not nested.is_here(found, path)]
        wanted = index.ignored(git, include)
        inner = nested.paths(found, (*links, *state.changed, *state.untracked, *wanted))
        by_content = index.lfs_files(git, found.top)
        index.forget(git, by_content, found.object_format)
        index.clear(git, [*absent, *inner], found.object_format)
        instead = index.files_below(git, absent)
        named = dict.fromkeys((*state.changed, *state.untracked, *instead, *wanted, *by_content))
        new = [name for name in named if name.rstrip("/") not in inner]
        index.refuse_lfs_pointers(git, found.top, new)
        check_new_files(found.top, new, max_new_bytes)
        index.add(git, new)
        submodules, notes = _add_inner(git, found, inner, max_new_bytes)
        made = git.text("write-tree")
    notes += [
        f"the submodule `{path}` is not checked out here and is not sent"
        for path in absent
        if not any(name.startswith(f"{path}/") for name in instead)
    ]
    instead_of_git = (*by_content, *inner, *absent)
    unseen = tree.differ(found.git, state.revision, made, besides=instead_of_git)
    return _Made(made, state, unseen, submodules, tuple(notes))


def _add_inner(
    git: Git, found: Repository, inner: Sequence[str], max_new_bytes: int
) -> tuple[dict[str, str], list[str]]:
    """Submodules and other repositories inside this one, by content."""
    revisions: dict[str, str] = {}
    notes = []
    for path in inner:
        child = nested.open_inner(found, path)
        made = _make_tree(child, (), max_new_bytes)
        nested.import_tree(child, found, made.tree)
        nested.graft(git, path, made.tree)
        dirty = "+dirty" if made.dirty else ""
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
        dirty=made.dirty,
        changed=len(state.changed),
        untracked=len(state.untracked),
        in_progress=found.in_progress,
        remote=repository.remote_url(found),
        submodules=made.submodules,
    )
