"""Seconds times a thousand are milliseconds, whatever the text beside the number says."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TypeGuard

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import CLOCKS
from preflight.syntax.python import PythonFile, block_around, constant

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


_UNIT_BEFORE = re.compile(r"[(\[](ms|us|µs|μs|ns)[)\]]\s*[:=]?\s*$")


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for text in file.nodes(ast.JoinedStr):
        yield from _pairs(file, text.values)
    for call in file.calls_to("print"):
        yield from _pairs(file, call.args)
    for node in file.nodes(ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            named = _UNIT_IN_NAME.search(node.targets[0].id)
            if named:
                yield from _compare(file, node.value, named[1] or named[2])


def _pairs(file: PythonFile, parts: list[ast.expr]) -> Iterator[Hit]:
    """A number with its unit behind it, or before it in brackets."""
    for first, second in itertools.pairwise(parts):
        number = first.value if isinstance(first, ast.FormattedValue) else first
        if isinstance(second, ast.Constant) and not isinstance(first, ast.Constant):
            match = _UNIT_AFTER.match(str(second.value))
            if match:
                yield from _compare(file, number, _LONG.get(match[1], match[1]))
        elif isinstance(first, ast.Constant):
            match = _UNIT_BEFORE.search(str(first.value))
            value = second.value if isinstance(second, ast.FormattedValue) else second
            if match:
                yield from _compare(file, value, match[1])


def _compare(file: PythonFile, node: ast.expr, said: str) -> Iterator[Hit]:
    known = _exponent(file, node, file.statement_of(node))
    if known is not None and known != _EXPONENT[said]:
        units = {0: "s", 3: "ms", 6: "us", 9: "ns"}
        real = units.get(known, f"s x 1e{known}")
        yield file.hit(file.at(node), f"the number is in {real}, the text says `{said}`")


def _exponent(file: PythonFile, node: ast.expr, statement: ast.stmt) -> int | None:
    """A time's unit as a power of ten over seconds; None when it is not surely a time.

    Names are followed through the statements above, in the same block only.
    """
    match node:
        case ast.Name(id=name):
            earlier = _assignment_above(file, name, statement)
            return _exponent(file, earlier.value, earlier) if earlier else None
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for time, factor in ((left, right), (right, left)):
                shift = _power_of_ten(constant(factor))
                base = _exponent(file, time, statement)
                if shift is not None and base is not None:
                    return base + shift
            return None
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _divided(_exponent(file, left, statement), constant(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            units = {_clock_exponent(file, side, statement) for side in (left, right)} - {None}
            return units.pop() if len(units) == 1 else None
        case ast.Call(func=ast.Attribute(attr="elapsed_time"), args=[_]):
            return 3
    return None


def _divided(base: int | None, divisor: object) -> int | None:
    """A float divisor is a change of unit; a whole power of ten may be the number of rounds."""
    shift = _power_of_ten(divisor)
    if base is None or (shift and isinstance(divisor, int)):
        return None
    return base - shift if shift else base


def _assignment_above(file: PythonFile, name: str, statement: ast.stmt) -> ast.Assign | None:
    """The last plain assignment of a name above a statement, when nothing between may change it."""
    block = block_around(file, statement)
    for earlier in reversed(block[: block.index(statement)]):
        if isinstance(earlier, ast.Assign) and len(earlier.targets) == 1:
            target = earlier.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return earlier
        if name in {n.id for n in ast.walk(earlier) if _is_store(n)}:
            return None
    return None


def _is_store(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _clock_exponent(file: PythonFile, node: ast.expr, statement: ast.stmt) -> int | None:
    if isinstance(node, ast.Name):
        earlier = _assignment_above(file, node.id, statement)
        return _clock_exponent(file, earlier.value, earlier) if earlier else None
    unit = CLOCKS.get(file.qualified(node.func)) if isinstance(node, ast.Call) else None
    return _EXPONENT[unit] if unit else None


def _power_of_ten(value: object) -> int | None:
    table = {1: 0, 1000: 3, 1_000_000: 6, 1_000_000_000: 9, 0.001: -3, 1e-6: -6, 1e-9: -9}
    return table.get(value) if isinstance(value, (int, float)) else None
