"""Globs over a directory that follow no link: `*`, `?`, `[...]`, and `**` for any depth.

As in a shell, a name that begins with a dot is meant only by a pattern that begins with one.
"""

from __future__ import annotations

import fnmatch
import os
from typing import Iterator, Tuple

Parts = Tuple[str, ...]


def matches(pattern: str, base: str, problems: list[str]) -> Iterator[str]:
    """Names relative to `base` that are no directories, sorted within each directory, each once.

    A pattern that leaves `base` matches nothing.

    Args:
        problems: receives a sentence for every directory that could not be looked into.
    """
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if parts and ".." not in parts and not pattern.startswith("/"):
        yield from _below("", parts, base, set(), problems)


def _below(
    folder: str, parts: Parts, base: str, seen: set[tuple[str, Parts]], problems: list[str]
) -> Iterator[str]:
    if (folder, parts) in seen:
        return
    seen.add((folder, parts))
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from _below(folder, rest or ("*",), base, seen, problems)
    for name, is_folder in _listed(folder, base, problems):
        if not _fits(name, head):
            continue
        path = os.path.join(folder, name)
        if not is_folder:
            if not rest and head != "**":
                yield path
        elif head == "**":
            yield from _below(path, parts, base, seen, problems)
        elif rest:
            yield from _below(path, rest, base, seen, problems)


def _listed(folder: str, base: str, problems: list[str]) -> list[tuple[str, bool]]:
    """Names in a directory, and whether each is a directory itself; a link to one is not."""
    try:
        with os.scandir(os.path.join(base, folder)) as entries:
            return sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)
    except OSError as error:
        problems.append(f"`{folder or '.'}` cannot be looked into: {error.strerror}")
        return []


def _fits(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return pattern == "**" or fnmatch.fnmatchcase(name, pattern)
