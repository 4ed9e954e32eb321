"""All artifacts of two sides: paired by path, each pair to its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.diff import sniff
from orchestrator.diff.blob import Blob
from orchestrator.diff.confined import Confined
from orchestrator.diff.record import ORDER, Record
from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.rules import fits, rule_for
from orchestrator.diff.sides.side import Side
from orchestrator.errors import InputError
from orchestrator.spec.compare import CompareRule

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class ArtifactDiffs:
    """The records, worst first; `ignored` counts the paths whose rule says so."""

    records: tuple[Record, ...]
    ignored: int = 0


def compare(
    a: Side,
    b: Side,
    rules: Sequence[CompareRule],
    confined: Confined,
    *,
    is_artifact: Wanted,
    only: str = "",
) -> ArtifactDiffs:
    """Compare every artifact of either side.

    Args:
        only: a glob; other paths are left out.

    Raises:
        InputError: `only` fits no path.
    """
    named = _pairs(a, b)
    paths = [name for name in named if is_artifact(name) and (not only or fits(name, only))]
    if only and not paths:
        raise InputError(f"no artifact of either side fits `{only}`", expected="a glob over paths")
    kept = [path for path in paths if not rule_for(path, rules).ignore]
    records = [_compare(path, *named[path], a, b, rules, confined) for path in kept]
    ordered = sorted(records, key=lambda record: (ORDER.index(record.status), record.path))
    return ArtifactDiffs(tuple(ordered), len(paths) - len(kept))


def _pairs(a: Side, b: Side) -> dict[str, tuple[str, str]]:
    """Every path and its name on either side, empty where it is missing.

    Two single files are a pair whatever they are called.

    Raises:
        InputError: only one side is a single file.
    """
    if a.single and b.single:
        return {b.single: (a.single, b.single)}
    if a.single or b.single:
        one, other = (a, b) if a.single else (b, a)
        raise InputError(
            f"`{one.name}` is a file and `{other.name}` is a {other.kind}: no pair",
            expected="two files, or two of run, bundle, directory and revision",
        )
    names = [*a.artifacts, *(name for name in b.artifacts if name not in a.artifacts)]
    return {
        name: (name if name in a.artifacts else "", name if name in b.artifacts else "")
        for name in sorted(names)
    }


def _compare(
    path: str,
    name_a: str,
    name_b: str,
    a: Side,
    b: Side,
    rules: Sequence[CompareRule],
    confined: Confined,
) -> Record:
    rule = rule_for(path, rules)
    entry_a, entry_b = a.artifacts.get(name_a), b.artifacts.get(name_b)
    problems = [
        f"{side}: {entry.problem}"
        for side, entry in (("A", entry_a), ("B", entry_b))
        if entry is not None and entry.problem
    ]
    sizes = (entry_a.size if entry_a else None, entry_b.size if entry_b else None)
    kind = _kind(path, rule)
    if problems:
        return Record(
            path, kind, "unreadable", note="; ".join(problems), size_a=sizes[0], size_b=sizes[1]
        )
    if entry_a is None or entry_b is None:
        return Record(
            path, kind, "only_b" if entry_a is None else "only_a", size_a=sizes[0], size_b=sizes[1]
        )
    if entry_a.content and entry_a.content == entry_b.content and rule.nan == "equal":
        # git has both under one hash; read once all the same, so that broken is not called equal.
        return _read_pair(path, (a, name_a), (a, name_a), rule, confined)
    return _read_pair(path, (a, name_a), (b, name_b), rule, confined)


def _read_pair(
    path: str,
    a: tuple[Side, str],
    b: tuple[Side, str],
    rule: CompareRule,
    confined: Confined,
) -> Record:
    blobs: list[Blob] = []
    sizes = [side.artifacts[name].size for side, name in (a, b)]
    try:
        blobs = [side.blob(name, confined.scratch) for side, name in dict.fromkeys((a, b))]
        return confined.compare(path, blobs[0], blobs[-1], rule)
    except Unreadable as error:
        return Record(
            path,
            _kind(path, rule),
            "unreadable",
            note=str(error),
            size_a=sizes[0],
            size_b=sizes[1],
        )
    finally:
        for copy in _copies(blobs, confined.scratch):
            copy.unlink(missing_ok=True)


def _kind(path: str, rule: CompareRule) -> str:
    """The type of what is not read: as declared, or as the name promises."""
    return rule.type or sniff.by_name(path) or "unknown"


def _copies(blobs: Sequence[Blob], scratch: Path) -> Iterator[Path]:
    """The files that were made for this pair alone."""
    return (blob.path for blob in blobs if blob.path.parent == scratch)
