"""A failure that leaves no trace in the log."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.errors.handlers import is_broad, is_cleanup, is_silent, tries_imports_only
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="swallowed-exception",
    code="ERR001",
    title="A broad handler swallows the exception in code that runs steps",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the step goes on without the work that failed, and the log that comes home says "
    "nothing about it",
    help="name the exception that is expected, or log it with its traceback (`logging.exception`)",
    needs=(b"except",),
    fix=Grade.DISPLAY,
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "step" not in file.roles or "test" in file.roles:
        return
    for handler in file.nodes(ast.ExceptHandler):
        if not is_broad(file, handler) or not is_silent(handler):
            continue
        if tries_imports_only(file, handler) or is_cleanup(file, handler):
            continue
        kind = f"except {file.text(handler.type)}" if handler.type else "bare except"
        yield file.hit(file.at(handler), f"`{kind}` swallows every failure of this block")
