"""For people: the line with a caret, then why it matters, what to do, and where it is explained."""

from __future__ import annotations

from pathlib import Path

from preflight.engine import Report
from preflight.finding import Finding, Grade
from preflight.reporters.concise import shown_path, summary
from preflight.source import Source


def render(report: Report) -> str:
    sources: dict[str, Source] = {}
    blocks = [_block(report, finding, sources) for finding in report.findings]
    return "\n".join([*blocks, summary(report)]) + "\n"


def _source(report: Report, path: str, sources: dict[str, Source]) -> Source:
    if path not in sources:
        file = Path(report.root, path)
        sources[path] = Source(path, file.read_bytes() if file.is_file() else b"")
    return sources[path]


def _block(report: Report, finding: Finding, sources: dict[str, Source]) -> str:
    path = shown_path(report, finding.path)
    span = finding.span
    head = (
        f"{path}:{span.line}:{span.column}: {finding.severity.word}[{finding.rule}] "
        f"{finding.message}"
    )
    lines = [head, *_snippet(_source(report, finding.path, sources), finding)]
    lines += [
        f"  {shown_path(report, r.path)}:{r.line}:{r.column}: {r.message}" for r in finding.related
    ]
    lines.append(f"  why:  {finding.consequence}")
    lines.append(f"  help: {finding.help}")
    if finding.fix and finding.fix.edits:
        option = "--fix" if finding.fix.grade is Grade.SAFE else "--unsafe-fixes"
        lines.append(f"  fix:  {finding.fix.title} (`preflight {option}`)")
    lines.append(f"  more: preflight --explain {finding.rule}")
    return "\n".join(lines) + "\n"


def _snippet(source: Source, finding: Finding) -> list[str]:
    span = finding.span
    if span.line > len(source.line_starts):
        return []
    text = source.line_text(span.line).expandtabs(1)
    end = span.end_column if span.end_line == span.line else len(text) + 1
    width = max(end - span.column, 1)
    gutter = str(span.line)
    blank = " " * len(gutter)
    return [f"  {gutter} | {text}", f"  {blank} | {' ' * (span.column - 1)}{'^' * width}"]
