"""From what a person typed to a side: a run, a bundle, a directory, a file, or PATH@REV."""

from __future__ import annotations

import tempfile
from pathlib import Path

from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.sides.bundle import Bundle
from orchestrator.diff.sides.folder import Folder
from orchestrator.diff.sides.kept import BUNDLE, EVIDENCE, Kept
from orchestrator.diff.sides.revision import Revision
from orchestrator.diff.sides.side import Files, Side
from orchestrator.errors import EvidenceError, InputError, SourceError
from orchestrator.source import repository
from orchestrator.store import rundir
from orchestrator.store.rundir import RunDir

_JOURNAL = f"{EVIDENCE}journal.jsonl"


def resolve(name: str, artifacts: Path, scratch: Path) -> Side:
    """The side of that name.

    Args:
        artifacts: the directory of the project's runs.
        scratch: a directory for copies, which must outlive the side.

    Raises:
        InputError: nothing answers to the name.
        EvidenceError: the run is not home, or what is there is damaged.
    """
    path = Path(name)
    if path.is_dir() and not (path / "run.json").is_file():
        return _of_files(name, path)
    if path.is_file():
        if path.suffix == ".zip":
            return _with_layout(name, "bundle", Bundle(path))
        return Side(name, "file", Folder(path.parent, path.name), single=path.name)
    if "@" in name and not path.is_dir():
        return _of_revision(name, scratch)
    return _of_run(rundir.find(artifacts, "latest" if name == "last" else name))


def _of_run(run: RunDir) -> Side:
    record = run.read_record()
    if not run.evidence.is_dir():
        raise EvidenceError(
            f"{record.run_id} is not home yet: nothing of it can be compared",
            fix=f"orch fetch {record.run_id}",
        )
    return Side(record.run_id, "run", Folder(run.path), EVIDENCE)


def _of_files(name: str, path: Path) -> Side:
    return _with_layout(name, "directory", Folder(path))


def _of_revision(name: str, scratch: Path) -> Side:
    path, _, revision = name.rpartition("@")
    try:
        found = repository.find(Path.cwd())
    except SourceError as error:
        raise InputError(
            f"`{name}` names a git revision, and no repository is here",
            expected="a run, a path, or PATH@REV inside a git working copy",
        ) from error
    inside = _from_top(Path(path), found.top)
    files = Revision(found, inside, revision)
    if files.is_file:
        return Side(name, "revision", files, single=inside.rsplit("/", 1)[-1])
    if {"run.json", BUNDLE} <= files.entries.keys() and _JOURNAL not in files.entries:
        return Side(name, "revision", Kept(files, _bundle_of(name, files, scratch)), EVIDENCE)
    return _with_layout(name, "revision", files)


def _bundle_of(name: str, files: Files, scratch: Path) -> Bundle:
    # A folder of its own: copies right below `scratch` go with the pair they were made for.
    folder = Path(tempfile.mkdtemp(prefix="kept-", dir=scratch))
    try:
        return Bundle(files.blob(BUNDLE, folder).path)
    except Unreadable as error:
        raise EvidenceError(f"the bundle of `{name}` {error}") from error


def _from_top(path: Path, top: Path) -> str:
    """A path as git names it; `PATH` is meant from here, as everywhere on the command line."""
    try:
        inside = (Path.cwd() / path).resolve().relative_to(top.resolve()).as_posix()
    except ValueError as error:
        raise InputError(f"`{path}` is outside the repository {top}") from error
    return "" if inside == "." else inside


def _with_layout(name: str, kind: str, files: Files) -> Side:
    """A side that may be the directory of a run, committed or copied."""
    is_run = {"run.json", _JOURNAL} <= files.entries.keys()
    return Side(name, kind, files, EVIDENCE if is_run else "")
