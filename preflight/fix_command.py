"""`--fix`, `--unsafe-fixes` and `--diff`: fix, look again, until nothing is left to fix."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from preflight.config import Config
from preflight.engine import Options, run
from preflight.finding import Finding, Grade
from preflight.fixing import MAX_ROUNDS, FixedFile, allowed_grades, fix_bytes, write_if_unchanged


def apply_fixes(
    paths: list[Path],
    config: Config,
    options: Options,
    *,
    unsafe: bool,
    diff_only: bool,
    output_format: str,
) -> int:
    """Fix files in place (or print the diff). Returns 1 when blocking findings are left."""
    grades = allowed_grades(True, unsafe)
    report = run(paths, config, options)
    fixed = 0
    for _ in range(1 if diff_only else MAX_ROUNDS):
        changed = [f for f in _fixed_files(config.root, report.findings, grades) if f.changed]
        if diff_only:
            sys.stdout.write("".join(file.diff() for file in changed))
            return 1 if changed else 0
        written = [
            file for file in changed if write_if_unchanged(Path(config.root, file.path), file)
        ]
        if not written:
            break
        fixed += sum(len(file.applied) for file in written)
        report = run(paths, config, options)
    sys.stdout.write(import_module(f"preflight.reporters.{output_format}").render(report))
    sys.stdout.write(f"preflight: fixed {fixed} finding{'s' if fixed != 1 else ''}\n")
    return 1 if report.blocking(config.strict) else 0


def _fixed_files(
    root: Path, findings: tuple[Finding, ...], grades: frozenset[Grade]
) -> list[FixedFile]:
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.fix and finding.fix.edits:
            by_path.setdefault(finding.path, []).append(finding)
    return [
        fix_bytes(path, Path(root, path).read_bytes(), group, grades)
        for path, group in by_path.items()
    ]
