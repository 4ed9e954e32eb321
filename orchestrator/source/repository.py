"""Where the working copy is, and what state it is in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import SourceError
from orchestrator.source.git import Git, way_out

# Files in the git directory that tell of an operation half done.
_IN_PROGRESS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True)
class Repository:
    """One working copy: the main one, a linked worktree, or a submodule's."""

    top: Path
    git_dir: Path
    object_format: str

    @property
    def git(self) -> Git:
        return Git(self.top)

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    @property
    def in_progress(self) -> str:
        """`rebase`, `merge`, ... or an empty string."""
        for name, word in _IN_PROGRESS.items():
            if (self.git_dir / name).exists():
                return word
        return ""


@dataclass(frozen=True)
class Status:
    """What `git status` says: where HEAD is, and every path that differs from it.

    `revision` is empty before the first commit; `branch` is empty when HEAD is detached.
    """

    revision: str
    branch: str
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def dirty(self) -> bool:
        return bool(self.changed or self.untracked)


def find(start: Path) -> Repository:
    """The working copy that `start` lies in.

    Raises:
        SourceError: there is none, it is bare, or git refuses it; the message says what to do.
    """
    done = Git(start).run(
        "rev-parse",
        "--is-bare-repository",
        "--is-inside-work-tree",
        "--show-object-format",
        "--show-cdup",
        "--absolute-git-dir",
        check=False,
    )
    # The last line alone may hold a newline of its own: the name of a directory.
    lines = os.fsdecode(done.stdout).removesuffix("\n").split("\n", 4)
    if done.returncode == 0 and len(lines) == 5 and lines[1] == "true":
        _, _, object_format, way_up, git_dir = lines
        return Repository((start / way_up).resolve(), Path(git_dir), object_format)
    said = os.fsdecode(done.stderr).strip()
    if lines[:1] == ["true"]:
        raise SourceError(
            f"`{start}` is a bare repository and has no files to run",
            fix="make a checkout: `git worktree add DIR BRANCH`, and start from there",
        )
    if lines[1:2] == ["false"]:
        raise SourceError(
            f"`{start}` is inside a .git directory", fix="start from the working copy beside it"
        )
    if "dubious ownership" in said:
        raise SourceError(
            f"git does not trust `{start}`: {said.splitlines()[0]}",
            fix=f"git config --global --add safe.directory {start}",
        )
    if "not a git repository: " in said:
        raise SourceError(
            f"`{start}` belongs to a repository that is not there: {said}",
            fix=way_out(said),
        )
    raise SourceError(
        f"`{start}` is not in a git working copy",
        expected="a directory under git: the run is named by the hash of its tree",
        fix="run `git init` in the project's top directory (no commit is needed)",
    )


def status(repository: Repository, *, git: Git | None = None) -> Status:
    """The state of the working copy; untracked files one by one, ignored ones not."""
    output = (git or repository.git).run(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--ignore-submodules=none",
        "--no-renames",
    )
    revision = branch = ""
    changed, untracked = [], []
    for record in output.stdout.split(b"\0"):
        text = os.fsdecode(record)
        if text.startswith("# branch.oid "):
            revision = text.removeprefix("# branch.oid ").replace("(initial)", "")
        elif text.startswith("# branch.head "):
            branch = text.removeprefix("# branch.head ").replace("(detached)", "")
        elif text.startswith("1 "):
            changed.append(text.split(" ", 8)[8])
        elif text.startswith("u "):
            changed.append(text.split(" ", 10)[10])
        elif text.startswith("? "):
            untracked.append(text[2:])
    return Status(revision, branch, tuple(changed), tuple(untracked))


def remote_url(repository: Repository) -> str:
    """The URL of `origin`, without the credentials some people keep in it."""
    url = repository.git.text("config", "--get", "remote.origin.url", check=False)
    return re.sub(r"(?<=://)[^/@]*@", "", url)


@dataclass(frozen=True)
class Code:
    """What a person needs to find this code again; recorded in every run."""

    revision: str
    branch: str
    dirty: bool
    changed: int
    untracked: int
    in_progress: str
    remote: str
    submodules: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "branch": self.branch,
            "dirty": self.dirty,
            "changed": self.changed,
            "untracked": self.untracked,
            "in_progress": self.in_progress,
            "remote": self.remote,
            "submodules": dict(self.submodules),
        }
