"""Calls that end the graph: print, open, logging, clocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.compile.compiled_functions import COMPILE_MARKS, compiled_functions, traced
from preflight.source import unsafe
from preflight.syntax.python import PythonFile, keyword

RULE = Rule(
    name="graph-break-call",
    code="CMP001",
    title="A compiled function makes a call that cannot be in the graph",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the graph is cut there in two, nothing is fused across the cut, and "
    "`fullgraph=True` fails",
    help="move the call out of the compiled function, or guard it with `if not "
    "torch.compiler.is_compiling():`",
    needs=COMPILE_MARKS,
    fix=Grade.UNSAFE,
)
_BUILTINS = {"print": "GB0059", "open": "GB0059", "input": "GB0059", "breakpoint": "GB0059"}
_CLOCKS = frozenset(
    f"time.{name}"
    for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "sleep")
)
_LOG_METHODS = frozenset(
    ("debug", "info", "warning", "error", "exception", "critical", "log", "warn")
)
_CONFIGURED = (
    b"reorderable_logging_functions",
    b"ignore_logger_methods",
    b"ignore_logging_functions",
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for function in compiled_functions(file):
        for node in traced(file, function):
            if isinstance(node, ast.Call):
                broken = _graph_break(file, node)
                if broken:
                    name, identity = broken
                    yield file.hit(
                        file.at(node),
                        f"`{name}` in the compiled function `{function.name}` breaks the graph "
                        f"({identity})",
                        fix=_remove(file, node) if name == "print" else None,
                    )


def _graph_break(file: PythonFile, call: ast.Call) -> tuple[str, str] | None:
    """What is called and its id in the graph break registry of PyTorch."""
    name = file.qualified(call.func)
    configured = any(word in file.data for word in _CONFIGURED)
    if name in _BUILTINS and not (name == "print" and configured):
        return name, _BUILTINS[name]
    if name in _CLOCKS:
        return name, "GB0007"
    if _is_logging(file, call, name) and not configured:
        return name, "GB0291"
    return None


def _is_logging(file: PythonFile, call: ast.Call, name: str) -> bool:
    owner, _, method = name.rpartition(".")
    if method not in _LOG_METHODS:
        return False
    if owner == "logging":
        return True
    return any(
        isinstance(node.value, ast.Call)
        and file.qualified(node.value.func) in ("logging.getLogger", "getLogger")
        and any(isinstance(target, ast.Name) and target.id == owner for target in node.targets)
        for node in file.nodes(ast.Assign)
    )


def _remove(file: PythonFile, call: ast.Call) -> Fix | None:
    """Delete a `print` that stands alone; `pass` takes the place of a block's only statement."""
    statement = file.parent(call)
    if not isinstance(statement, ast.Expr) or keyword(call, "file"):
        return None
    block = getattr(file.parent(statement), "body", [])
    if block == [statement]:
        return unsafe("remove the print", Edit(file.start(statement), file.end(statement), "pass"))
    start = file.line_starts[statement.lineno - 1]
    last = statement.end_lineno or statement.lineno
    end = file.line_starts[last] if last < len(file.line_starts) else len(file.data)
    alone = not file.data[start : file.start(statement)].strip()
    alone = alone and not file.data[file.end(statement) : end].strip()
    return unsafe("remove the print", Edit(start, end, "")) if alone else None
