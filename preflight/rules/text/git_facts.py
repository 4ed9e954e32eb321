"""What git knows about line endings: asked once for all files, never re-implemented."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 30


@dataclass(frozen=True)
class EolFacts:
    """Line endings of one tracked file: in the index, in the working tree, and by attribute."""

    index: str
    worktree: str
    attributes: str


_NAMED_PATHS = 500


def eol_facts(root: Path, paths: Sequence[str]) -> dict[str, EolFacts]:
    """`git ls-files --eol` by path; empty outside a working copy.

    git reads every file it is asked about, so it is asked about these alone; about all of them when
    they are too many for a command line.
    """
    named = ("--", *paths) if len(paths) <= _NAMED_PATHS else ()
    output = _git(root, "--literal-pathspecs", "ls-files", "--eol", "-z", *named)
    found = {}
    for record in output.split("\0"):
        left, tab, path = record.partition("\t")
        if not tab:
            continue
        fields = {}
        for word in left.split(maxsplit=2):
            key, _, value = word.partition("/")
            fields[key] = value.strip()
        found[path] = EolFacts(fields.get("i", ""), fields.get("w", ""), fields.get("attr", ""))
    return found


def eol_attribute(root: Path, paths: list[str]) -> dict[str, tuple[str, str]]:
    """`(text, eol)` attributes by path, as `git check-attr` reports them."""
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(paths), 500):
        chunk = paths[start : start + 500]
        output = _git(root, "check-attr", "-z", "text", "eol", "--", *chunk)
        parts = output.split("\0")
        for path, name, value in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
            found.setdefault(path, {})[name] = value
    return {path: (facts.get("text", ""), facts.get("eol", "")) for path, facts in found.items()}


def is_working_copy(root: Path) -> bool:
    return bool(_git(root, "rev-parse", "--is-inside-work-tree").strip() == "true")


def _git(root: Path, *words: str) -> str:
    try:
        result = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode("utf-8", "surrogateescape") if result.returncode == 0 else ""
