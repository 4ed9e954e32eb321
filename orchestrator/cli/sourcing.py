"""Commands about the trees that were run."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.places import artifacts, project_dir
from orchestrator.errors import InputError
from orchestrator.source import anchor, repository, snapshot
from orchestrator.store import rundir


def diff(old: str, new: str, stat: bool) -> None:
    found = repository.find(project_dir())
    options = ("--stat",) if stat else ()
    print(anchor.diff(found, _full_id(old), _full_id(new), options=options), end="")


def restore(name: str, folder: Path) -> None:
    found = repository.find(project_dir())
    count = anchor.restore(found, _full_id(name), folder)
    print(f"{count} files of {_full_id(name)} are in {folder}")


def unsent() -> None:
    names = snapshot.unsent(repository.find(project_dir()))
    for name in names:
        print(name)
    if not names:
        print("everything in the working copy travels")


def _full_id(name: str) -> str:
    """The run id behind `latest` or a beginning; any other name is git's to resolve."""
    try:
        return rundir.find(artifacts(), name).run_id
    except InputError:
        return name
