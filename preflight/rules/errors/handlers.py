"""Broad exception handlers: which they are, and every accepted way out of them."""

from __future__ import annotations

import ast
import re

from preflight.syntax.python import PythonFile

BROAD = frozenset(("Exception", "BaseException", "builtins.Exception", "builtins.BaseException"))
_EXPECTED = re.compile(
    r"fall(?:s|ing|en)?[ -]?back|fallback|shut(?:ting)?[ -]?down|clean(?:ing)?[ -]?up|optional",
    re.IGNORECASE,
)
_PLAIN = (ast.Constant, ast.Name)
_TRACING = frozenset(
    ("exception", "print_exc", "format_exc", "format_exception", "print_exception")
)


def is_broad(file: PythonFile, handler: ast.ExceptHandler) -> bool:
    """Bare, `Exception`, `BaseException`, or a tuple that holds one of them."""
    kind = handler.type
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(file.qualified(item) in BROAD for item in kinds)


def is_silent(handler: ast.ExceptHandler) -> bool:
    """Nothing but `pass`, `...`, `continue` or a docstring."""
    return all(
        isinstance(statement, (ast.Pass, ast.Continue))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in handler.body
    )


def keeps_traceback(file: PythonFile, handler: ast.ExceptHandler) -> bool:
    """Re-raises, logs with traceback, formats one, or hands the exception itself on."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = file.qualified(node.func)
            if name.rsplit(".", 1)[-1] in _TRACING or name.startswith("traceback."):
                return True
            if any(word.arg in ("exc_info", "stack_info") for word in node.keywords):
                return True
            if name in ("sys.exit", "os._exit", "exit"):
                return True
    return bool(handler.name) and _hands_on(handler, str(handler.name))


def is_expected(file: PythonFile, handler: ast.ExceptHandler) -> bool:
    """The handler says that it falls back, shuts down or leaves out something optional."""
    first, last = handler.lineno, handler.end_lineno or handler.lineno
    words = " ".join(file.line_text(line) for line in range(first, last + 1))
    return bool(_EXPECTED.search(words))


def _hands_on(handler: ast.ExceptHandler, name: str) -> bool:
    """The exception is stored, returned, or given to a call that is not mere text."""
    text_only: set[ast.AST] = set()
    for node in ast.walk(handler):
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue)):
            text_only.update(ast.walk(node))
        if isinstance(node, ast.Call) and _makes_text(node):
            text_only.update(ast.walk(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            text_only.update(ast.walk(node.right))
        if isinstance(node, ast.Attribute):
            text_only.add(node.value)
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and node not in text_only
        for node in ast.walk(handler)
    )


def _makes_text(call: ast.Call) -> bool:
    """`str(e)`, `print(e)`, `log.error("...", e)`, `"...".format(e)`, `type(e)`."""
    if isinstance(call.func, ast.Name):
        return call.func.id in ("str", "repr", "print", "type", "isinstance")
    return isinstance(call.func, ast.Attribute) and call.func.attr in (
        "debug",
        "info",
        "warning",
        "warn",
        "error",
        "critical",
        "log",
        "format",
        "write",
    )


def tries_imports_only(file: PythonFile, handler: ast.ExceptHandler) -> bool:
    """The try body asks only whether something is there: an import, or a name."""
    block = file.parent(handler)
    if not isinstance(block, ast.Try):
        return False
    return all(
        isinstance(statement, (ast.Import, ast.ImportFrom))
        or (isinstance(statement, ast.Assign) and isinstance(statement.value, _PLAIN))
        or (isinstance(statement, ast.Expr) and _appends(statement.value))
        for statement in block.body
    )


def _appends(node: ast.expr) -> bool:
    """`names.append(name)`: the list of what was found."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and all(isinstance(argument, _PLAIN) for argument in node.args)
    )


def is_cleanup(file: PythonFile, handler: ast.ExceptHandler) -> bool:
    """Inside `__del__`, `__exit__`, `close`, an `atexit` function or a `finally` block."""
    function = file.function_of(handler)
    if function is not None and function.name in (
        "__del__",
        "__exit__",
        "__aexit__",
        "close",
        "_cleanup",
        "shutdown",
        "terminate",
        "teardown",
        "stop",
        "cleanup",
    ):
        return True
    child: ast.AST = handler
    for up in file.ancestors(handler):
        if isinstance(up, ast.Try) and child in up.finalbody:
            return True
        child = up
    return False
