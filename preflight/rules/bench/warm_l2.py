"""Inputs that fit the L2 cache are read from it from the second round on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import timed_regions
from preflight.syntax.python import FunctionNode, PythonFile, integer, keyword

RULE = Rule(
    name="warm-l2",
    code="BEN005",
    title="A timed loop reads the same small inputs every round",
    severity=Severity.INFO,
    profile=Profile.AUDITOR,
    consequence="from the second round on the operands come from L2 and not from HBM, and a "
    "memory-bound kernel looks "
    "faster than it is in a model",
    help="flush L2 between rounds or rotate over several buffers, or declare `l2: warm` in the "
    "ledger",
    needs=(b"torch.rand", b"torch.empty", b"torch.zeros", b"torch.ones"),
    fix=Grade.DISPLAY,
)
L2_BYTES = 50 * 1024 * 1024
_BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "float": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "half": 2,
    "int8": 1,
    "uint8": 1,
}
_MAKERS = ("torch.randn", "torch.rand", "torch.empty", "torch.zeros", "torch.ones")
_COLD = ("flush", "l2", "rotat", "cold")


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if _thinks_of_the_cache(file):
        return
    for region in timed_regions(file):
        for statement in region.body:
            if isinstance(statement, (ast.For, ast.While)):
                sizes = _input_bytes(file, statement, file.scope_of(statement))
                if sizes and sum(sizes.values()) < L2_BYTES:
                    mib = sum(sizes.values()) / 2**20
                    names = ", ".join(f"`{name}`" for name in sorted(sizes))
                    yield file.hit(
                        file.at(statement),
                        f"the timed loop reads {names} ({mib:.1f} MiB together) on every round",
                    )


def _thinks_of_the_cache(file: PythonFile) -> bool:
    """A name in the file speaks of flushing, rotating or L2."""
    words = [node.id for node in file.nodes(ast.Name)]
    words += [node.attr for node in file.nodes(ast.Attribute)]
    words += [node.arg for node in file.nodes(ast.arg)]
    return any(mark in word.lower() for word in words for mark in _COLD)


def _input_bytes(
    file: PythonFile, loop: ast.For | ast.While, scope: FunctionNode | ast.Module
) -> dict[str, int]:
    """Bytes of the literal-shaped tensors passed to calls in the loop."""
    passed = {
        argument.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    found: dict[str, int] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = {t.id for t in node.targets if isinstance(t, ast.Name)} & passed
            size = _bytes(file, node.value)
            if names and size:
                found.update(dict.fromkeys(names, size))
    return found


def _bytes(file: PythonFile, call: ast.Call) -> int | None:
    if file.qualified(call.func) not in _MAKERS:
        return None
    shape = call.args
    if len(shape) == 1 and isinstance(shape[0], (ast.Tuple, ast.List)):
        shape = shape[0].elts
    total = 1
    for extent in shape:
        number = integer(extent)
        if number is None:
            return None
        total *= number
    dtype = keyword(call, "dtype")
    width = 4 if dtype is None else _BYTES.get(file.text(dtype).rsplit(".", 1)[-1])
    return total * width if width and shape else None
