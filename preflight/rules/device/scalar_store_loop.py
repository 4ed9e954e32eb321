"""One kernel launch per element: how a hijacked host table shows itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.device.factories import FACTORIES, device_text, in_jit_body, is_host
from preflight.syntax.python import PythonFile, integer, keyword, names_in

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
_INDEX_NODES = (ast.Name, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    loops: list[ast.For | ast.While] = [*file.nodes(ast.For), *file.nodes(ast.While)]
    for loop in loops:
        if _is_short(loop) or in_jit_body(file, loop):
            continue
        for statement in loop.body:
            target = _scalar_target(statement, _counters(loop))
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


def _counters(loop: ast.For | ast.While) -> set[str]:
    """Names that count: the targets of a `for`, and what the loop adds whole numbers to."""
    found = set()
    if isinstance(loop, ast.For):
        found = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found |= {node.target.id} if integer(node.value) is not None else set()
    return found


def _scalar_target(statement: ast.stmt, counters: set[str]) -> str | None:
    """`t` for `t[i] = ...` with a counter `i`; None for slices, index tensors, other targets."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    plain = all(isinstance(node, _INDEX_NODES) for part in parts for node in ast.walk(part))
    counts = bool({name for part in parts for name in names_in(part)} & counters)
    return target.value.id if plain and counts else None


def _factory_of(file: PythonFile, loop: ast.stmt, name: str) -> ast.Call | None:
    """The factory that made `name` one-dimensional, unless it is surely on the CPU."""
    made = [
        node.value
        for node in ast.walk(file.scope_of(loop))
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    call = made[0] if len(made) == 1 else None
    if not isinstance(call, ast.Call) or file.qualified(call.func) not in FACTORIES:
        return None
    if is_host(device_text(file, keyword(call, "device"))):
        return None
    return call if _is_one_dimensional(call) else None


def _is_one_dimensional(call: ast.Call) -> bool:
    shape = call.args[0] if call.args else None
    if isinstance(shape, (ast.Tuple, ast.List)):
        return len(shape.elts) == 1
    return shape is not None and len(call.args) == 1
