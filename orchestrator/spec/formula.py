"""Arithmetic over recorded metrics, as a ledger's `compute:` writes it.

Only numbers, the names of metrics, arithmetic, calls of a few functions: the text
comes from a file, so simpleeval evaluates it and never Python.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from simpleeval import InvalidExpression, SimpleEval

FUNCTIONS = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log2": math.log2,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.Constant,
    ast.Attribute, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow,
    ast.USub, ast.UAdd,
)  # fmt: skip


class FormulaError(ValueError):
    """The expression is not arithmetic over metrics, or has no value."""


def metrics(expression: str) -> tuple[str, ...]:
    """The metrics an expression names, in order, each once; a metric's name may have dots.

    Raises:
        FormulaError: it is not arithmetic, or calls a function we do not know.
    """
    found: dict[str, None] = {}
    _collect(_parse(expression).body, found)
    return tuple(found)


def evaluate(expression: str, values: Mapping[str, float]) -> float:
    """The value of an expression, given the value of every metric it names.

    Raises:
        FormulaError: the value is not a finite number (a division by zero, an overflow).
    """
    flat = {name: f"metric_{number}" for number, name in enumerate(values)}
    text = ast.unparse(_Flatten(flat).visit(_parse(expression)))
    names = {flat[name]: value for name, value in values.items()}
    evaluator = SimpleEval(functions=dict(FUNCTIONS), names=names)
    try:
        value = float(evaluator.eval(text))
    except (InvalidExpression, ArithmeticError, ValueError, TypeError) as error:
        raise FormulaError(f"`{expression}` has no value: {error}") from error
    if not math.isfinite(value):
        raise FormulaError(f"`{expression}` is {value}")
    return value


def _parse(expression: str) -> ast.Expression:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise FormulaError(f"`{expression}` is not an expression") from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise FormulaError(f"`{expression}` holds more than arithmetic over metrics")
        if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
            raise FormulaError(f"`{expression}` holds {node.value!r}, which is not a number")
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
            if name not in FUNCTIONS or node.keywords:
                known = ", ".join(FUNCTIONS)
                raise FormulaError(f"`{expression}` calls `{name}`; known are {known}")
    return tree


def _collect(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, (ast.Name, ast.Attribute)):
        found[ast.unparse(node)] = None
        return
    children = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for child in children:
        _collect(child, found)


class _Flatten(ast.NodeTransformer):
    """Each metric under a name of its own: in `a.b` simpleeval would look for an attribute."""

    def __init__(self, flat: Mapping[str, str]) -> None:
        self._flat = flat

    def visit_Call(self, node: ast.Call) -> ast.Call:
        return ast.Call(node.func, [self.visit(each) for each in node.args], [])

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._flat.get(node.id, node.id), ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        name = ast.unparse(node)
        return ast.Name(self._flat.get(name, name), ast.Load())
