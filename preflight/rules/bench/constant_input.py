"""Zeros draw less power and compress: they make a kernel look faster than data does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import timed_regions
from preflight.syntax.python import FunctionNode, PythonFile, keyword

RULE = Rule(
    name="constant-input",
    code="BEN003",
    title="A timed kernel is fed constant floats",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="constant operands flip fewer bits, so the GPU draws less power, clocks higher "
    "and reports a speed that "
    "real data does not reach",
    help="fill inputs with `torch.randn`, and keep zeros for outputs and scratch",
    needs=(b"torch.zeros", b"torch.ones", b"torch.full"),
    fix=Grade.DISPLAY,
)
_CONSTANT = frozenset(("torch.zeros", "torch.ones", "torch.full"))
_NOT_INPUT = (
    "out",
    "dst",
    "result",
    "scratch",
    "work",
    "buf",
    "tmp",
    "weight",
    "scale",
    "norm",
    "bias",
    "index",
    "idx",
    "acc",
    "lock",
    "flag",
    "count",
    "offset",
    "mask",
    "len",
    "pos",
    "grad",
    "stat",
    "table",
    "lse",
    "cache",
    "flush",
)
_TIMERS = ("do_bench", "do_bench_cudagraph", "benchmark_fn", "bench_kineto", "timeit")


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "benchmark" not in file.roles:
        return
    timed: list[tuple[ast.AST, FunctionNode | ast.Module]] = [
        (s, file.scope_of(region.begin)) for region in timed_regions(file) for s in region.body
    ]
    timed += [
        (call, file.scope_of(call))
        for call, name in file.calls
        if name.rsplit(".", 1)[-1] in _TIMERS
    ]
    seen: set[ast.Call] = set()
    for root, scope in timed:
        for name in sorted(_passed_names(root)):
            made = _constant_tensor(file, scope, name)
            if made is not None and made not in seen:
                seen.add(made)
                yield file.hit(
                    file.at(made), f"`{name}` is constant and is an input of what is timed"
                )


def _passed_names(root: ast.AST) -> set[str]:
    return {
        argument.id
        for node in ast.walk(root)
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Name)
    }


def _constant_tensor(
    file: PythonFile, scope: FunctionNode | ast.Module, name: str
) -> ast.Call | None:
    """The call that made a constant float tensor under this name, if nothing refills it."""
    if any(word in name.lower() for word in _NOT_INPUT) or name in (
        "c",
        "C",
        "o",
        "O",
        "y",
        "d",
        "D",
    ):
        return None
    found = None
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            call = node.value
            if not isinstance(call, ast.Call) or file.qualified(call.func) not in _CONSTANT:
                return None
            if not _is_float(file, call) or _has_one_element(call):
                return None
            found = call
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == name
        ) and (node.attr.endswith("_") or node.attr in ("data", "copy_")):
            return None
    return found


def _is_float(file: PythonFile, call: ast.Call) -> bool:
    dtype = keyword(call, "dtype")
    return dtype is None or any(
        word in file.text(dtype) for word in ("float", "half", "bf16", "fp16")
    )


def _has_one_element(call: ast.Call) -> bool:
    numbers = [n.value for a in call.args[:1] for n in ast.walk(a) if isinstance(n, ast.Constant)]
    return (
        bool(numbers)
        and all(number == 1 for number in numbers)
        and not any(isinstance(n, ast.Name) for a in call.args[:1] for n in ast.walk(a))
    )
