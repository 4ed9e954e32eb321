"""A log line with the message only: the place of the failure is lost."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.errors.handlers import (
    is_broad,
    is_expected,
    is_silent,
    keeps_traceback,
)
from preflight.source import unsafe
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="traceback-dropped",
    code="ERR002",
    title="A broad handler logs the message and drops the traceback",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the log that comes home names the error but not the line, and another round trip "
    "is needed to find it",
    help="log with `exc_info=True` (or `logger.exception`), print `traceback.format_exc()`, or "
    "raise",
    needs=(b"except",),
    fix=Grade.UNSAFE,
)
_LOG_METHODS = frozenset(("debug", "info", "warning", "warn", "error", "critical"))


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "step" not in file.roles or "test" in file.roles:
        return
    for handler in file.nodes(ast.ExceptHandler):
        if not is_broad(file, handler) or is_silent(handler) or keeps_traceback(file, handler):
            continue
        told = _telling_call(file, handler)
        if told is not None and not is_expected(file, handler):
            yield file.hit(
                file.at(told),
                "the exception is told without its traceback",
                fix=_add_exc_info(file, told),
                related=(file.related(file.start(handler), "the handler"),),
            )


def _telling_call(file: PythonFile, handler: ast.ExceptHandler) -> ast.Call | None:
    """The print or log call that mentions the exception."""
    for node in ast.walk(handler):
        if not isinstance(node, ast.Call):
            continue
        is_print = isinstance(node.func, ast.Name) and node.func.id == "print"
        is_log = isinstance(node.func, ast.Attribute) and node.func.attr in _LOG_METHODS
        if (is_print or is_log) and handler.name in {
            n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)
        }:
            return node
    return None


def _add_exc_info(file: PythonFile, call: ast.Call) -> Fix | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    owner = file.qualified(call.func.value).rsplit(".", 1)[-1].lower()
    if "log" not in owner:
        return None
    return unsafe("log the traceback", file.insert_argument(call, "exc_info=True"))
