"""`preflight schedule FILE`: run the checks a JSON file asks for, over the numbers it holds.

{"schema": "preflight/schedule-v1",
 "checks": [{"check": "order", "consumption": [0, 1, 2], "pull": [0, 2, 1]},
            {"check": "residency", "spinning_blocks": 24, "sms": 132},
            {"check": "waves", "jobs": 2048, "sms": 24, "wave_cost_us": 6},
            {"check": "rows", "observed": [0, 1, 2, 3]}]}
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from preflight.schedule import (
    ScheduleProblem,
    check_order,
    check_residency,
    check_rows,
    check_waves,
)

SCHEMA = "preflight/schedule-v1"
CHECKS: dict[str, Callable[..., list[ScheduleProblem]]] = {
    "order": check_order,
    "residency": check_residency,
    "waves": check_waves,
    "rows": check_rows,
}


class ScheduleFileError(Exception):
    """The file does not say what to check; the text names the place and what was expected."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "preflight schedule",
        description="Check a schedule's numbers: consumption order, residency, waves, row map.",
        epilog="Exit: 0 all hold, 1 a check fails, 2 the file cannot be used.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON, see the schedule page")
    arguments = parser.parse_args(argv)
    try:
        problems = check_file(arguments.file)
    except ScheduleFileError as error:
        sys.stderr.write(f"preflight: {error}\n")
        return 2
    for problem in problems:
        sys.stdout.write(f"{arguments.file}: {problem}\n")
    sys.stdout.write(f"preflight: {len(problems) or 'no'} schedule problems\n")
    return 1 if problems else 0


def check_file(path: Path) -> list[ScheduleProblem]:
    """Problems of all checks of a file, in its order. Raises ScheduleFileError."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ScheduleFileError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ScheduleFileError(f'{path}: expected `"schema": "{SCHEMA}"` at the top')
    checks = document.get("checks")
    if not isinstance(checks, list) or not checks:
        raise ScheduleFileError(f"{path}: `checks` is empty: nothing checked is not a pass")
    return [p for index, item in enumerate(checks) for p in _run(item, f"{path}: checks[{index}]")]


def _run(item: Any, where: str) -> list[ScheduleProblem]:
    name = item.get("check") if isinstance(item, dict) else None
    if name not in CHECKS:
        raise ScheduleFileError(
            f"{where}: `check` is `{name}`, expected one of {', '.join(CHECKS)}"
        )
    values = {key: value for key, value in item.items() if key != "check"}
    parameters = inspect.signature(CHECKS[name]).parameters
    unknown = sorted(set(values) - set(parameters))
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in values]
    if unknown or missing:
        what = f"no key `{unknown[0]}`" if unknown else f"the key `{missing[0]}` is missing"
        raise ScheduleFileError(f"{where}: {what}; `{name}` takes {', '.join(parameters)}")
    try:
        return CHECKS[name](**values)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ScheduleFileError(f"{where}: the numbers cannot be used: {error}") from error
