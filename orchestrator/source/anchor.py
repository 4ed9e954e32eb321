"""`refs/orch/<run-id>`: the exact tree of every run, kept in the user's own repository."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.errors import InputError, SourceError
from orchestrator.source import tree
from orchestrator.source.repository import Repository

PREFIX = "refs/orch/"


def keep(found: Repository, run_id: str, tree_hash: str) -> None:
    """Name a tree after its run, so that git never throws it away."""
    found.git.run("update-ref", f"{PREFIX}{run_id}", tree_hash)


def forget(found: Repository, run_id: str) -> None:
    found.git.run("update-ref", "-d", f"{PREFIX}{run_id}")


def kept_runs(found: Repository) -> dict[str, str]:
    """Run ids and their trees."""
    lines = found.git.text("for-each-ref", "--format=%(refname) %(objectname)", PREFIX)
    pairs = (line.split(" ") for line in lines.splitlines())
    return {name.removeprefix(PREFIX): tree_hash for name, tree_hash in pairs}


def resolve(found: Repository, name: str) -> str:
    """The tree of a run id, or of anything git itself can name.

    Raises:
        InputError: neither a run nor a revision has that name.
    """
    for candidate in (f"{PREFIX}{name}", name):
        done = found.git.run(
            "rev-parse", "--verify", "--quiet", f"{candidate}^{{tree}}", check=False
        )
        if done.returncode == 0:
            return done.stdout.decode("ascii").strip()
    raise InputError(
        f"neither a run nor a git revision is named `{name}` here",
        expected="a run id from `orch ls`, or a revision",
    )


def diff(found: Repository, old: str, new: str, *, options: tuple[str, ...] = ()) -> str:
    """What changed between two trees, as `git diff` shows it."""
    done = found.git.run("diff", *options, resolve(found, old), resolve(found, new), "--")
    return done.stdout.decode("utf-8", "replace")


def restore(found: Repository, name: str, target: Path) -> int:
    """Write the files of a run's tree, byte for byte as the host had them; returns how many.

    Raises:
        InputError: the target holds something already, or the name is unknown.
        SourceError: the tree names a path outside itself, or a submodule, which a run never does.
    """
    tree_hash = resolve(found, name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"`{target}` is not empty", expected="a new or an empty directory")
    listed = tree.entries(tree.listing(found.git, tree_hash))
    places: dict[str, list[tree.Entry]] = {}
    for entry in listed:
        _refuse_unsafe(entry)
        places.setdefault(entry.blob, []).append(entry)
    for blob, _, chunks in tree.read_blobs(found.git, list(places)):
        content = b"".join(chunks)
        for entry in places[blob]:
            _write(target / entry.path, entry.mode, content)
    return len(listed)


def _refuse_unsafe(entry: tree.Entry) -> None:
    parts = entry.path.split("/")
    if parts[0] == "" or ".." in parts or ".git" in (part.lower() for part in parts):
        raise SourceError(f"the tree holds the path `{entry.path}`, which must not be written")
    if entry.mode == tree.GITLINK:
        raise SourceError(
            f"`{entry.path}` is a submodule, of which a commit holds no file",
            expected="a run: its tree holds submodules by content",
        )


def _write(path: Path, mode: str, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == tree.SYMLINK:
        path.symlink_to(os.fsdecode(content))
        return
    path.write_bytes(content)
    if mode == tree.EXECUTABLE:
        path.chmod(path.stat().st_mode | 0o111)
