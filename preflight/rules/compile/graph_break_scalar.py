"""Reading a tensor's value into Python ends the graph and waits for the GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.compile.compiled_functions import (
    COMPILE_MARKS,
    compiled_functions,
    tensor_names,
    traced,
    yields_tensor,
)
from preflight.syntax.python import FunctionNode, PythonFile, keyword

RULE = Rule(
    name="graph-break-scalar",
    code="CMP002",
    title="A compiled function reads a tensor's value into Python",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the graph is cut there and the host waits for the GPU on every call",
    help="keep the value a tensor, or set `torch._dynamo.config.capture_scalar_outputs = True`",
    needs=COMPILE_MARKS,
)
_METHODS = {"item": "GB0124", "tolist": "GB0109"}
# PyTorch 2.9 and newer capture scalars by themselves under fullgraph=True.
_CAPTURES_UNDER_FULLGRAPH = (2, 9)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if b"capture_scalar_outputs" in file.data:
        return
    for function in compiled_functions(file):
        if _is_captured(file, function, config):
            continue
        tensors = tensor_names(file, function)
        for node in traced(file, function):
            name = _read(file, node, tensors) if isinstance(node, ast.Call) else None
            if name:
                identity = _METHODS.get(name, "GB0124")
                shown = f".{name}()" if name in _METHODS else f"{name}(tensor)"
                yield file.hit(
                    file.at(node),  # type: ignore[arg-type]
                    f"`{shown}` in the compiled function `{function.name}` breaks the graph "
                    f"({identity})",
                )


def _is_captured(file: PythonFile, function: FunctionNode, config: Config) -> bool:
    """Under `fullgraph=True` newer versions capture the scalar instead of failing."""
    version = config.torch_version
    if version and version < _CAPTURES_UNDER_FULLGRAPH:
        return False
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call)]
    calls += [
        c
        for c in file.calls_to("torch.compile")
        if c.args and file.qualified(c.args[0]) == function.name
    ]
    words = [keyword(call, "fullgraph") for call in calls]
    return any(isinstance(word, ast.Constant) and word.value is True for word in words)


def _read(file: PythonFile, call: ast.Call, tensors: set[str]) -> str | None:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in _METHODS and not call.args:
        return func.attr
    if isinstance(func, ast.Name) and func.id in ("int", "float", "bool") and len(call.args) == 1:
        return func.id if yields_tensor(file, call.args[0], tensors) else None
    return None
