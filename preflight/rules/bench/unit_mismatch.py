"""Seconds times a thousand are milliseconds, whatever the text beside the number says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import CLOCKS
from preflight.syntax.python import FunctionNode, PythonFile, constant

RULE = Rule(
    name="unit-mismatch",
    code="BEN006",
    title="The printed unit is not the unit of the number",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the reported time is wrong by a factor of a thousand or more",
    help="correct the factor or the unit: seconds x 1e3 are ms, x 1e6 are us; `elapsed_time` "
    "gives ms",
    needs=(b"perf_counter", b"time.time", b"monotonic", b"elapsed_time"),
    fix=Grade.DISPLAY,
)
_EXPONENT = {"s": 0, "ms": 3, "us": 6, "µs": 6, "μs": 6, "ns": 9}
_UNIT_AFTER = re.compile(
    r"^\s*\[?\(?(ms|us|µs|μs|ns|milliseconds|microseconds|nanoseconds|s|sec|seconds)\b"
)
_UNIT_IN_NAME = re.compile(r"_(ms|us|ns)$|^(ms|us|ns)$")
_LONG = {
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
    "sec": "s",
    "seconds": "s",
}


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for text in file.nodes(ast.JoinedStr):
        for value, after in zip(text.values, text.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                match = _UNIT_AFTER.match(str(after.value))
                if match:
                    said = _LONG.get(match[1], match[1])
                    yield from _compare(file, value.value, said)
    for node in file.nodes(ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            named = _UNIT_IN_NAME.search(node.targets[0].id)
            if named:
                yield from _compare(file, node.value, named[1] or named[2])


def _compare(file: PythonFile, node: ast.expr, said: str) -> Iterator[Hit]:
    known = _exponent(file, node, file.scope_of(node))
    if known is not None and known != _EXPONENT[said]:
        units = {0: "s", 3: "ms", 6: "us", 9: "ns"}
        real = units.get(known, f"s x 1e{known}")
        yield file.hit(file.at(node), f"the number is in {real}, the text says `{said}`")


def _exponent(file: PythonFile, node: ast.expr, scope: FunctionNode | ast.Module) -> int | None:
    """A time's unit as a power of ten over seconds; None when it is not surely a time."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for time, factor in ((left, right), (right, left)):
                shift = _power_of_ten(constant(factor))
                base = _exponent(file, time, scope)
                if shift is not None and base is not None:
                    return base + shift
            return None
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            base = _exponent(file, left, scope)
            if base is None:
                return None
            divisor = constant(right)
            shift = _power_of_ten(divisor)
            if shift and isinstance(divisor, int):
                return None  # a whole number may be the number of rounds
            return base - shift if shift else base
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            units = {_clock_exponent(file, side, scope) for side in (left, right)} - {None}
            return units.pop() if len(units) == 1 else None
        case ast.Call(func=ast.Attribute(attr="elapsed_time"), args=[_]):
            return 3
    return None


def _clock_exponent(
    file: PythonFile, node: ast.expr, scope: FunctionNode | ast.Module
) -> int | None:
    if isinstance(node, ast.Call):
        unit = CLOCKS.get(file.qualified(node.func))
        return _EXPONENT[unit] if unit else None
    if isinstance(node, ast.Name):
        values = [
            item.value
            for item in ast.walk(scope)
            if isinstance(item, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == node.id for t in item.targets)
        ]
        units = {
            CLOCKS.get(file.qualified(value.func)) if isinstance(value, ast.Call) else None
            for value in values
        }
        unit = units.pop() if len(units) == 1 else None
        return _EXPONENT[unit] if unit else None
    return None


def _power_of_ten(value: object) -> int | None:
    table = {1: 0, 1000: 3, 1_000_000: 6, 1_000_000_000: 9, 0.001: -3, 1e-6: -6, 1e-9: -9}
    return table.get(value) if isinstance(value, (int, float)) else None
