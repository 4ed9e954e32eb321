"""Apply fixes: allowed grades, no overlaps, nothing written that the parser did not check."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from preflight.discover import language_of
from preflight.finding import Edit, Finding, Grade

MAX_ROUNDS = 10


@dataclass(frozen=True)
class FixedFile:
    """The bytes of one file before and after its fixes, and the fixes that were refused."""

    path: str
    before: bytes
    after: bytes
    applied: tuple[Finding, ...]
    refused: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        old = self.before.decode("utf-8", "replace").splitlines(keepends=True)
        new = self.after.decode("utf-8", "replace").splitlines(keepends=True)
        return "".join(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}"))


def allowed_grades(fix: bool, unsafe: bool) -> frozenset[Grade]:
    grades = {Grade.SAFE} if fix or unsafe else set()
    if unsafe:
        grades.add(Grade.UNSAFE)
    return frozenset(grades)


def fix_bytes(
    path: str, data: bytes, findings: Iterable[Finding], grades: frozenset[Grade]
) -> FixedFile:
    """Apply each allowed fix that leaves the rest of the file as it was; refuse the others."""
    candidates = [f for f in findings if f.fix and f.fix.edits and f.fix.grade in grades]
    chosen = _without_overlaps(candidates)
    after = data
    applied, refused = [], []
    for finding in sorted(chosen, key=_first_byte, reverse=True):
        assert finding.fix is not None
        changed = apply_edits(after, finding.fix.edits)
        if still_the_same_program(path, after, changed, finding.fix.edits):
            after = changed
            applied.append(finding)
        else:
            refused.append(finding)
    return FixedFile(path, data, after, tuple(applied), tuple(refused))


def _first_byte(finding: Finding) -> int:
    assert finding.fix is not None
    return min(edit.start_byte for edit in finding.fix.edits)


def _without_overlaps(findings: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    reached = -1
    for finding in sorted(findings, key=_first_byte):
        assert finding.fix is not None
        if _first_byte(finding) > reached or (not kept and reached < 0):
            kept.append(finding)
            reached = max(edit.end_byte for edit in finding.fix.edits)
    return kept


def apply_edits(data: bytes, edits: Iterable[Edit]) -> bytes:
    for edit in sorted(edits, key=lambda e: e.start_byte, reverse=True):
        data = data[: edit.start_byte] + edit.text.encode("utf-8") + data[edit.end_byte :]
    return data


def still_the_same_program(path: str, before: bytes, after: bytes, edits: Iterable[Edit]) -> bool:
    """Whether the file still parses and no statement outside the edits changed its meaning."""
    language = language_of(path)
    if language == "python":
        return _same_python(before, after, list(edits))
    if language == "yaml":
        return _same_yaml_shape(path, before, after)
    return True


def _same_python(before: bytes, after: bytes, edits: list[Edit]) -> bool:
    try:
        old, new = ast.parse(before), ast.parse(after)
    except (SyntaxError, ValueError):
        return False
    touched = {before.count(b"\n", 0, e.start_byte) + 1 for e in edits}
    touched |= {before.count(b"\n", 0, max(e.end_byte - 1, e.start_byte)) + 1 for e in edits}
    return _same_block(old.body, new.body, touched)


def _same_block(old: list[ast.stmt], new: list[ast.stmt], touched: set[int]) -> bool:
    """Equal but for the touched statements: an equal head, an equal tail, and a small middle."""
    head = 0
    while head < min(len(old), len(new)) and ast.dump(old[head]) == ast.dump(new[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and ast.dump(old[-1 - tail]) == ast.dump(
        new[-1 - tail]
    ):
        tail += 1
    return all(_touches(statement, touched) for statement in old[head : len(old) - tail])


def _touches(statement: ast.stmt, lines: set[int]) -> bool:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    last = statement.end_lineno or first
    return any(first <= line <= last for line in lines)


def _same_yaml_shape(path: str, before: bytes, after: bytes) -> bool:
    """Still YAML, with every key that was there before."""
    from preflight.syntax.yaml import YamlError, YamlFile, entries, walk

    def keys(data: bytes) -> list[str]:
        file = YamlFile(path, data)
        return [key.value for node in walk(file.root) for key, _ in entries(node)]

    try:
        old, new = keys(before), keys(after)
    except (YamlError, UnicodeDecodeError):
        return False
    return len(set(old) - set(new)) <= 1


def write_if_unchanged(path: Path, fixed: FixedFile) -> bool:
    """Write the fixed bytes unless somebody else changed the file meanwhile."""
    if path.read_bytes() != fixed.before:
        return False
    path.write_bytes(fixed.after)
    return True
