"""The size guard: a forgotten data set must not travel, nor fill git's object store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.errors import SourceError

_SHOWN = 10


def check_new_files(top: Path, names: Iterable[str], limit_bytes: int) -> None:
    """Refuse changed and new files that are too large together, before git stores them.

    Raises:
        SourceError: they exceed the limit.
    """
    sizes = {}
    for name in names:
        path = top / name
        if path.is_file() and not path.is_symlink():
            sizes[name] = path.stat().st_size
    refuse_above(limit_bytes, sizes, "changed and new files hold")


def refuse_above(limit_bytes: int, sizes: Mapping[str, int], what: str) -> None:
    """Raise when the sizes exceed the limit, naming the largest files and the two ways out."""
    total = sum(sizes.values())
    if total <= limit_bytes:
        return
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    lines = "".join(f"\n  {_megabytes(size):>10}  {name}" for name, size in largest)
    raise SourceError(
        f"{what} {_megabytes(total)}, more than the {_megabytes(limit_bytes)} of `max_upload`; "
        f"the largest:{lines}\n",
        fix="add what the run does not need to .gitignore, or raise `max_upload:`",
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
