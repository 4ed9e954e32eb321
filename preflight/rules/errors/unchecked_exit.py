"""A remote command that may fail unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.python import PythonFile, keyword

RULE = Rule(
    name="unchecked-exit",
    code="ERR004",
    title="The exit status of a command is asked for and never read",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="a failed build or copy goes unnoticed, and the run measures what was there before",
    help="read `result.ok` or `returncode`, or let the call raise (`check=True`, no `warn=True`)",
    needs=(b"warn=", b"check=False", b"subprocess", b"os.system"),
    fix=Grade.DISPLAY,
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for call, name in file.calls:
        shown = _ignores_failure(call, name)
        if shown and isinstance(file.parent(call), ast.Expr):
            yield file.hit(file.at(call), f"`{shown}` may fail, and nobody reads its exit status")


def _ignores_failure(call: ast.Call, name: str) -> str | None:
    """`run(..., warn=True)` of fabric or invoke, `subprocess.run(...)` unchecked, `os.system`."""
    warn, check = keyword(call, "warn"), keyword(call, "check")
    warns = isinstance(warn, ast.Constant) and warn.value is True
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if warns and method in ("run", "sudo", "local"):
        return f"{method}(warn=True)"
    if name in ("subprocess.run", "subprocess.call"):
        unchecked = check is None or (isinstance(check, ast.Constant) and check.value is False)
        return name if unchecked and not any(w.arg is None for w in call.keywords) else None
    return name if name == "os.system" else None
