"""What a bundle takes of a run's folders, and the names of what in them it cannot take."""

from __future__ import annotations

import os
import stat
from typing import Callable, Iterator, Sequence

from orchestrator.agent import manifest
from orchestrator.agent.layout import RunFolder

_NAMED = 10
MEMBERS = (
    "environment.before.json",
    "environment.after.json",
    "activation.log",
    "supervisor.log",
    "plan.json",
)


def files_below(run: RunFolder, top: str, left_out: Sequence[str]) -> Iterator[str]:
    """Plain files, sorted, by their names in the run's directory."""
    for folder, inner, names in os.walk(run.inside(top)):
        inner.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, run.path)
            if not _is_below(relative, left_out) and stat.S_ISREG(os.lstat(path).st_mode):
                yield relative


def tell_what_is_no_file(
    run: RunFolder, left_out: Sequence[str], note: Callable[[str], None]
) -> None:
    """Name the links and the other things below the steps that a bundle does not hold."""
    links: list[str] = []
    others: list[str] = []
    for folder, inner, names in os.walk(run.inside("steps")):
        inner.sort()
        for name in sorted([*inner, *names]):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, run.path)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or _is_below(relative, left_out):
                continue
            (links if stat.S_ISLNK(mode) else others).append(manifest.portable_path(relative))
    for found, one, many in (
        (links, "is a link", "are links"),
        (others, "is neither a file nor a directory", "are neither files nor directories"),
    ):
        if found:
            shown = ", ".join(f"`{name}`" for name in found[:_NAMED])
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            verb, plural = (one, "is") if len(found) == 1 else (many, "are")
            note(f"{shown}{more} {verb} and {plural} not in the bundle")


def _is_below(name: str, tops: Sequence[str]) -> bool:
    return any(f"{name}/".startswith(f"{top}/") for top in tops)
