"""Findings as plain JSON data and back: one form for the cache and for programs."""

from __future__ import annotations

from typing import Any

from preflight.finding import Edit, Finding, Fix, Grade, Profile, Related, Severity, Span
from preflight.suppressions import Suppression


def span_to_json(span: Span) -> dict[str, int]:
    return {
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "start_byte": span.start_byte,
        "end_byte": span.end_byte,
    }


def fix_to_json(fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    edits = [
        {"start_byte": e.start_byte, "end_byte": e.end_byte, "text": e.text} for e in fix.edits
    ]
    return {"grade": fix.grade.value, "title": fix.title, "edits": edits}


def finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "rule": finding.rule,
        "code": finding.code,
        "path": finding.path,
        "span": span_to_json(finding.span),
        "severity": finding.severity.word,
        "profile": finding.profile.word,
        "message": finding.message,
        "consequence": finding.consequence,
        "help": finding.help,
        "fix": fix_to_json(finding.fix),
        "related": [
            {"path": r.path, "line": r.line, "column": r.column, "message": r.message}
            for r in finding.related
        ],
    }


def finding_from_json(data: dict[str, Any]) -> Finding:
    fix = data["fix"]
    return Finding(
        id=data["id"],
        rule=data["rule"],
        code=data["code"],
        path=data["path"],
        span=Span(**data["span"]),
        severity=Severity[data["severity"].upper()],
        profile=Profile[data["profile"].upper()],
        message=data["message"],
        consequence=data["consequence"],
        help=data["help"],
        fix=Fix(Grade(fix["grade"]), fix["title"], tuple(Edit(**e) for e in fix["edits"]))
        if fix
        else None,
        related=tuple(Related(**related) for related in data["related"]),
    )


def suppression_to_json(suppression: Suppression) -> dict[str, Any]:
    return {**vars(suppression), "rules": list(suppression.rules)}


def suppression_from_json(data: dict[str, Any]) -> Suppression:
    return Suppression(**{**data, "rules": tuple(data["rules"])})
