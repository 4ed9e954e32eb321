"""One kernel launch per element: how a hijacked host table shows itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.device.factories import FACTORIES, device_text, in_jit_body, is_host
from preflight.syntax.python import PythonFile, integer, keyword

RULE = Rule(
    name="scalar-store-loop",
    code="DEV004",
    title="A Python loop stores into a tensor one element at a time",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="on a GPU tensor each store is a kernel launch of several microseconds, and on a "
    "CPU tensor a "
    "dispatcher call",
    help="build a Python list and make the tensor once, with its device named",
    needs=(b"torch",),
    fix=Grade.DISPLAY,
    pitfalls=(1,),
)
SMALL_RANGE = 64


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    loops: list[ast.For | ast.While] = [*file.nodes(ast.For), *file.nodes(ast.While)]
    for loop in loops:
        if _is_short(loop) or in_jit_body(file, loop):
            continue
        for statement in loop.body:
            target = _scalar_target(statement)
            if target is None:
                continue
            made = _factory_of(file, loop, target)
            if made is not None:
                yield file.hit(
                    file.at(statement),
                    f"`{target}` is filled one element at a time",
                    related=(file.related(file.start(made), f"`{target}` is made here"),),
                )


def _is_short(loop: ast.For | ast.While) -> bool:
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    counts = [integer(argument) for argument in loop.iter.args]
    is_range = isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range"
    known = [count for count in counts if count is not None]
    return is_range and bool(counts) and len(known) == len(counts) and max(known) <= SMALL_RANGE


def _scalar_target(statement: ast.stmt) -> str | None:
    """`t` for `t[i] = ...` and `t[i, j] = ...`; None for slices and other targets."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    whole = any(isinstance(part, ast.Slice) or _is_ellipsis(part) for part in parts)
    return None if whole else target.value.id


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _factory_of(file: PythonFile, loop: ast.stmt, name: str) -> ast.Call | None:
    """The factory that made `name` one-dimensional, unless it is surely on the CPU."""
    scope = file.scope_of(loop)
    for node in ast.walk(scope):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if not any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            continue
        call = node.value
        if file.qualified(call.func) not in FACTORIES:
            return None
        if is_host(device_text(file, keyword(call, "device"))):
            return None
        return call if _is_one_dimensional(call) else None
    return None


def _is_one_dimensional(call: ast.Call) -> bool:
    shape = call.args[0] if call.args else None
    if isinstance(shape, (ast.Tuple, ast.List)):
        return len(shape.elts) == 1
    return shape is not None and len(call.args) == 1
