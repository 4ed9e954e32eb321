"""One line a finding: place, severity, rule, what, consequence, next action."""

from __future__ import annotations

import os
from collections import Counter

from preflight.engine import Report
from preflight.finding import Finding, Severity


def shown_path(report: Report, path: str) -> str:
    """The path from the current folder, so that editors and terminals can open it."""
    absolute = os.path.join(report.root, path)
    relative = os.path.relpath(absolute)
    return absolute if relative.startswith(f"..{os.sep}..") else relative.replace(os.sep, "/")


def line(report: Report, finding: Finding) -> str:
    path = shown_path(report, finding.path)
    place = f"{path}:{finding.span.line}:{finding.span.column}"
    words = f"{finding.message}; {finding.consequence}; {finding.help}"
    return f"{place}: {finding.severity.word}[{finding.rule}] {words}"


def render(report: Report) -> str:
    lines = [line(report, finding) for finding in report.findings]
    return "\n".join([*lines, summary(report)]) + "\n"


def summary(report: Report) -> str:
    """One closing sentence; what was not checked is part of it."""
    counts = Counter(finding.severity for finding in report.findings)
    words = [
        f"{counts[level]} {level.word}{'s' if counts[level] != 1 and level else ''}"
        for level in (Severity.ERROR, Severity.WARNING, Severity.INFO)
        if counts[level]
    ]
    parts = [", ".join(words) if words else "no findings", f"in {report.files} files"]
    notes = []
    if report.suppressed:
        notes.append(f"{len(report.suppressed)} suppressed")
    if report.skipped_functions:
        notes.append(f"{report.skipped_functions} GPU functions did not parse and were not checked")
    if report.unknown_hosts:
        notes.append("no host is described, so limits of hosts were not checked")
    return f"preflight: {' '.join(parts)}{''.join(f'; {note}' for note in notes)}"
