"""GitHub workflow commands: one annotation a finding, on the line in the pull request."""

from __future__ import annotations

from preflight.engine import Report
from preflight.finding import Finding, Severity
from preflight.reporters.concise import summary

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report) -> str:
    lines = [_annotation(finding) for finding in report.findings]
    return "\n".join([*lines, summary(report)]) + "\n"


def _annotation(finding: Finding) -> str:
    span = finding.span
    properties = [
        f"file={_property(finding.path)}",
        f"line={span.line}",
        f"endLine={span.end_line}",
        f"title={_property(finding.rule)}",
    ]
    if span.line == span.end_line:
        properties[2:2] = [f"col={span.column}", f"endColumn={span.end_column}"]
    words = f"{finding.message}; {finding.consequence}; {finding.help}"
    return f"::{_COMMAND[finding.severity]} {','.join(properties)}::{_data(words)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
