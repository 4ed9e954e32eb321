"""Operators whose output shape depends on the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.compile.compiled_functions import (
    COMPILE_MARKS,
    compiled_functions,
    tensor_names,
    traced,
    yields_tensor,
)
from preflight.syntax.python import PythonFile, keyword

RULE = Rule(
    name="dynamic-shape-op",
    code="CMP004",
    title="A compiled function uses an operator whose output shape depends on the data",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="the graph is cut (GB0036), or each new size compiles again",
    help="use `nonzero_static(size=...)`, `torch.where(mask, x, fill)`, or set "
    "`torch._dynamo.config.capture_dynamic_output_shape_ops = True`",
    needs=COMPILE_MARKS,
    fix=Grade.DISPLAY,
)
_OPS = frozenset(("nonzero", "unique", "unique_consecutive", "masked_select", "argwhere"))


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if b"capture_dynamic_output_shape_ops" in file.data:
        return
    for function in compiled_functions(file):
        tensors = tensor_names(file, function)
        for node in traced(file, function):
            name = _dynamic(file, node, tensors)
            if name:
                yield file.hit(
                    file.at(node),  # type: ignore[arg-type]
                    f"`{name}` in the compiled function `{function.name}` has a shape that "
                    "depends on the data",
                )


def _dynamic(file: PythonFile, node: ast.AST, tensors: set[str]) -> str | None:
    if isinstance(node, ast.Call):
        return _call(file, node, tensors)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        mask = node.slice
        compared = isinstance(mask, ast.Compare) and yields_tensor(file, mask, tensors)
        return "boolean index" if compared and yields_tensor(file, node.value, tensors) else None
    return None


def _call(file: PythonFile, call: ast.Call, tensors: set[str]) -> str | None:
    if keyword(call, "size"):
        return None
    name = file.qualified(call.func)
    last = name.rsplit(".", 1)[-1]
    if name.startswith("torch."):
        if last == "where" and len(call.args) == 1 and not call.keywords:
            return name
        return name if last in _OPS else None
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OPS:
        return call.func.attr if yields_tensor(file, call.func.value, tensors) else None
    return None
