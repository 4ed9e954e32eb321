"""Where a command that names no file finds its project, its runs and its hosts."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import SourceError
from orchestrator.source import repository
from orchestrator.spec.hosts import Host, find_host, hosts_files
from orchestrator.store import rundir
from orchestrator.store.record import RunRecord


def project_dir() -> Path:
    """The top of the working copy around the current directory, or that directory itself."""
    return _top(Path.cwd())


def project_of(file: Path) -> Path:
    """The top of the working copy around a file, or the file's directory."""
    return _top(file.resolve().parent)


def _top(folder: Path) -> Path:
    try:
        return repository.find(folder).top
    except SourceError:
        return folder


def artifacts() -> Path:
    return rundir.artifacts_dir(project_dir())


def host_of_run(record: RunRecord | None, override: str | None) -> tuple[str, Host]:
    """The host a run is on: the one named now, or the one it was started on."""
    name = override or (record.host if record else "local")
    return name, find_host(name, hosts_files(project_dir()))
