"""The command that compares two runs, bundles, directories or files."""

from __future__ import annotations

import json as json_text
from pathlib import Path

from orchestrator.cli.places import artifacts
from orchestrator.diff import comparison, junit
from orchestrator.report.diffing import terminal


def diff(
    a: str,
    b: str,
    exit_code: bool,
    json: bool,
    junit_file: Path | None,
    only: str,
    stat: bool,
    plain: bool,
) -> int:
    """Compare, tell, and return what `--exit-code` asks for; 0 without it."""
    found = comparison.compare(a, b, artifacts(), only=only)
    if junit_file is not None:
        junit.write(found, junit_file)
    if json:
        print(json_text.dumps(found.as_json(), indent=1))
    else:
        terminal.show(found, stat=stat, plain=plain)
    return found.exit_code if exit_code else 0
