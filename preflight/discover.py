"""Which files are linted: arguments, git's own list, and excludes that always win."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from preflight.config import Config, matches

LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".cu": "cuda",
    ".cuh": "cuda",
    ".c": "cuda",
    ".cc": "cuda",
    ".cpp": "cuda",
    ".cxx": "cuda",
    ".h": "cuda",
    ".hh": "cuda",
    ".hpp": "cuda",
    ".hip": "cuda",
    ".inl": "cuda",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "shell",
    ".bash": "shell",
}
_SKIPPED_FOLDERS = {".git", ".hg", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache"}
_GIT_TIMEOUT_S = 30


@dataclass(frozen=True)
class Target:
    """One file to lint: where it is, its path below the root with `/`, and its language."""

    absolute: Path
    path: str
    language: str


class PathMissing(Exception):
    """A path on the command line does not exist, or is neither a file nor a folder."""


def discover(paths: Iterable[Path], config: Config) -> list[Target]:
    """Files below the given paths, each once, in path order. Raises PathMissing."""
    found: dict[str, Target] = {}
    for path in paths:
        if not path.exists():
            raise PathMissing(f"`{path}`: no such file or folder; check the path")
        if not (path.is_dir() or path.is_file()):
            raise PathMissing(f"`{path}`: neither a file nor a folder; check the path")
        candidates = _below(path) if path.is_dir() else iter((path,))
        for candidate in candidates:
            target = _target(candidate, config)
            if target:
                found[target.path] = target
    return [found[key] for key in sorted(found)]


def language_of(name: str) -> str | None:
    return LANGUAGES.get(os.path.splitext(name)[1].lower())


def _target(path: Path, config: Config) -> Target | None:
    language = language_of(path.name)
    if language is None:
        return None
    relative = relative_path(path, config.root)
    if matches(relative, config.exclude):
        return None
    return Target(path, relative, language)


def relative_path(path: Path, root: Path) -> str:
    """Path below the root with forward slashes; the absolute path for files elsewhere."""
    absolute = os.path.normpath(os.path.join(os.getcwd(), path))
    prefix = str(root) + os.sep
    if absolute.startswith(prefix):
        return absolute[len(prefix) :].replace(os.sep, "/")
    return absolute.replace(os.sep, "/")


def _below(folder: Path) -> Iterator[Path]:
    listed = _git_files(folder)
    if listed is None:
        yield from _walk(folder)
    else:
        yield from listed


def _git_files(folder: Path) -> list[Path] | None:
    """Tracked and untracked files that git does not ignore; None outside a working copy."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    if result.returncode != 0:
        return None
    names = [os.fsdecode(name) for name in result.stdout.split(b"\0") if name]
    return [path for name in names if language_of(name) and (path := folder / name).is_file()]


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        for name in names:
            # A pipe would be waited for.
            if language_of(name) and (path := Path(parent, name)).is_file():
                yield path
