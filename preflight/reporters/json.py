"""`json`, an alias of `json-v1`: everything, in a layout that never changes."""

from __future__ import annotations

import json

from preflight.engine import Report
from preflight.wire import finding_to_json

SCHEMA = "preflight/json-v1"


def render(report: Report) -> str:
    data = {
        "schema": SCHEMA,
        "files": report.files,
        "skipped_functions": report.skipped_functions,
        "findings": [finding_to_json(finding) for finding in report.findings],
        "suppressed": [
            {
                "finding": finding_to_json(item.finding),
                "reason": item.suppression.reason,
                "until": item.suppression.until or None,
                "line": item.suppression.line,
            }
            for item in report.suppressed
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
