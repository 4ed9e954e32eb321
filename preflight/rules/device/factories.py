"""Names that make or move tensors, shared by the device and benchmark rules."""

from __future__ import annotations

import ast

from preflight.syntax.python import PythonFile, argument, constant, keyword, text_of

FACTORIES = frozenset(
    f"torch.{name}"
    for name in (
        "arange",
        "bartlett_window",
        "blackman_window",
        "empty",
        "empty_strided",
        "eye",
        "full",
        "hamming_window",
        "hann_window",
        "kaiser_window",
        "linspace",
        "logspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "range",
        "tensor",
        "tril_indices",
        "triu_indices",
        "zeros",
    )
)
DEFAULT_SETTERS = ("torch.set_default_device", "torch.set_default_tensor_type")
JIT_DECORATORS = frozenset(
    (
        "triton.jit",
        "triton.autotune",
        "triton.heuristics",
        "tl.jit",
        "torch.jit.script",
        "numba.cuda.jit",
    )
)


def device_text(file: PythonFile, node: ast.AST | None) -> str | None:
    """The device a node names: "cuda" for `"cuda"`, `torch.device("cuda")`; None when unknown."""
    if isinstance(node, ast.Call) and file.qualified(node.func) == "torch.device":
        kind = text_of(argument(node, 0, "type"))
        index = constant(argument(node, 1, "index"))
        return kind if kind is None or index is None else f"{kind}:{index}"
    return text_of(node)


def is_cuda(device: str | None) -> bool:
    return device is not None and device.split(":")[0] in ("cuda", "hip", "xpu", "npu")


def is_host(device: str | None) -> bool:
    return device is not None and device.split(":")[0] in ("cpu", "meta")


def creates_cuda_tensor(file: PythonFile, node: ast.AST) -> bool:
    """Whether an expression certainly yields something on a GPU."""
    if not isinstance(node, ast.Call):
        return False
    if is_cuda(device_text(file, keyword(node, "device"))):
        return True
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "cuda" and file.qualified(node.func) != "torch.cuda":
            return True
        if node.func.attr == "to" and any(is_cuda(device_text(file, arg)) for arg in node.args):
            return True
        return creates_cuda_tensor(file, node.func.value)
    return False


def in_jit_body(file: PythonFile, node: ast.AST) -> bool:
    function = file.function_of(node)
    return function is not None and bool(file.decorator_names(function) & JIT_DECORATORS)
