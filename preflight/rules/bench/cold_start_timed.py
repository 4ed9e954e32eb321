"""The first call of a jitted kernel compiles it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import (
    GpuKnowledge,
    TimedRegion,
    gpu_knowledge,
    timed_regions,
)
from preflight.syntax.python import LOOPS, FunctionNode, PythonFile

RULE = Rule(
    name="cold-start-timed",
    code="BEN004",
    title="The first call of a jitted function is inside the timed region",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the number holds seconds of compilation or autotuning, which no later call pays",
    help="call the function once (and synchronise) before the clock starts",
    needs=(b"triton.jit", b"torch.compile", b"autotune"),
    fix=Grade.DISPLAY,
)
_ON_PURPOSE = ("compil", "cold", "first", "warm", "build", "jit", "tun", "startup")


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    regions = timed_regions(file)
    if not regions:
        return
    gpu = gpu_knowledge(file)
    for region in regions:
        if _is_on_purpose(file, region) or file.enclosing(region.begin, *LOOPS) is not None:
            continue
        call = _first_jitted_call(file, gpu, region)
        if call is not None:
            name = _callee(file, call)
            yield file.hit(
                file.at(call),
                f"`{name}` is compiled inside the timed region",
                related=(file.related(file.start(region.begin), "the clock starts here"),),
            )


def _is_on_purpose(file: PythonFile, region: TimedRegion) -> bool:
    """The reading or the function is named after the cold start."""
    function = file.function_of(region.begin)
    words = (region.start + (function.name if function else "") + file.text(region.end)).lower()
    return any(word in words for word in _ON_PURPOSE)


def _callee(file: PythonFile, call: ast.Call) -> str:
    func = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return file.qualified(func)


def _first_jitted_call(file: PythonFile, gpu: GpuKnowledge, region: TimedRegion) -> ast.Call | None:
    """A jitted call of the region's own statements that nothing before the region has made."""
    scope = file.scope_of(region.begin)
    if not isinstance(scope, ast.Module) and _may_be_warm(file, scope):
        return None
    before = _called_before(file, scope, region.begin.lineno)
    for statement in region.body:
        for call, _ in file.calls_in(statement):
            name = _callee(file, call)
            if gpu.is_jitted(name, scope) and name not in before:
                return call
    return None


def _may_be_warm(file: PythonFile, scope: FunctionNode) -> bool:
    """The function is called more than once, so that only its first call is cold."""
    calls = [call for call, name in file.calls if name.rsplit(".", 1)[-1] == scope.name]
    return len(calls) > 1 or any(file.enclosing(call, *LOOPS) for call in calls)


def _called_before(file: PythonFile, scope: FunctionNode | ast.Module, line: int) -> set[str]:
    """Names called, or handed to some other call, above a line of a scope."""
    found: set[str] = set()
    for call, _ in file.calls_in(scope):
        if call.lineno < line:
            found.add(_callee(file, call))
            for argument in call.args:
                found |= {n.id for n in ast.walk(argument) if isinstance(n, ast.Name)}
            helper = file.functions.get(_callee(file, call).rsplit(".", 1)[-1])
            if helper is not None:
                found |= {_callee(file, inner) for inner, _ in file.calls_in(helper)}
    return found
