"""SARIF 2.1.0 for code scanning; files outside the root would spoil the whole upload."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from preflight import __version__
from preflight.engine import Report
from preflight.finding import Finding, Severity, Span
from preflight.rule import Rule, registry

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(report: Report) -> str:
    findings = [(finding, "") for finding in report.findings]
    findings += [(item.finding, item.suppression.reason) for item in report.suppressed]
    inside = [(finding, reason) for finding, reason in findings if _is_inside(finding)]
    names = sorted({finding.rule for finding, _ in inside})
    cards = [registry()[name].card for name in names]
    run = {
        "tool": {
            "driver": {
                "name": "preflight",
                "version": __version__,
                "rules": [_rule(card) for card in cards],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, reason, names) for finding, reason in inside],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _is_inside(finding: Finding) -> bool:
    return not finding.path.startswith(("/", "..")) and ":" not in finding.path[:3]


def _rule(card: Rule) -> dict[str, Any]:
    return {
        "id": card.name,
        "name": card.code,
        "shortDescription": {"text": card.title},
        "fullDescription": {"text": f"{card.title}. {card.consequence}."},
        "help": {"text": card.help},
        "defaultConfiguration": {"level": _LEVEL[card.severity]},
        "properties": {"profile": card.profile.word},
    }


def _result(finding: Finding, reason: str, names: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": names.index(finding.rule),
        "level": _LEVEL[finding.severity],
        "message": {"text": f"{finding.message}; {finding.consequence}; {finding.help}"},
        "locations": [_location(finding.path, finding.span)],
        "partialFingerprints": {"preflight/v1": finding.id},
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(related.path)},
                    "region": {"startLine": related.line, "startColumn": related.column},
                },
                "message": {"text": related.message},
            }
            for related in finding.related
        ]
    if reason:
        result["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return result


def _location(path: str, span: Span) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path)},
            "region": {
                "startLine": span.line,
                "startColumn": span.column,
                "endLine": span.end_line,
                "endColumn": span.end_column,
            },
        }
    }
