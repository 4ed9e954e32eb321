"""A branch on a tensor's value cannot be traced."""

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
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="data-dependent-branch",
    code="CMP003",
    title="A compiled function branches on a tensor's value",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the graph is cut at the branch, and each side is compiled and launched on its own",
    help="use `torch.where` or `torch.cond`, or take the decision outside the compiled function",
    needs=COMPILE_MARKS,
    fix=Grade.DISPLAY,
)
_REDUCTIONS = frozenset(
    ("any", "all", "sum", "max", "min", "mean", "norm", "count_nonzero", "argmax")
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for function in compiled_functions(file):
        tensors = tensor_names(file, function)
        for node in traced(file, function):
            if isinstance(node, (ast.If, ast.While, ast.IfExp)) and _reads(
                file, node.test, tensors
            ):
                yield file.hit(
                    file.at(node.test),
                    f"the branch in the compiled function `{function.name}` depends on a tensor's "
                    "value",
                )


def _reads(file: PythonFile, test: ast.expr, tensors: set[str]) -> bool:
    """A reduction of a tensor in the test, outside questions of shape, type and presence."""
    match test:
        case ast.BoolOp(values=values):
            return any(_reads(file, value, tensors) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _reads(file, operand, tensors)
        case ast.Compare(left=left, comparators=others, ops=ops):
            if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in ops):
                return False
            return any(_is_reduction(file, node, tensors) for node in (left, *others))
    return _is_reduction(file, test, tensors)


def _is_reduction(file: PythonFile, node: ast.expr, tensors: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = file.qualified(node.func)
    if name.startswith("torch.") and name.rsplit(".", 1)[-1] in _REDUCTIONS:
        return True
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in _REDUCTIONS
        and yields_tensor(file, node.func.value, tensors)
    )
