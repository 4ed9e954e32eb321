"""Which functions of a file torch.compile traces, and which statements in them it really sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.syntax.python import FunctionNode, PythonFile, keyword, per_file

COMPILE = "torch.compile"
COMPILE_MARKS = (b"torch.compile", b"torch import compile")
DISABLED = frozenset(
    (
        "torch.compiler.disable",
        "torch._dynamo.disable",
        "torch.compiler.allow_in_graph",
        "torch._dynamo.allow_in_graph",
    )
)
_NOT_COMPILING = ("is_compiling", "is_dynamo_compiling", "is_exporting")
TENSOR_ANNOTATIONS = frozenset(("torch.Tensor", "Tensor", "torch.nn.Parameter"))


@per_file
def compiled_functions(file: PythonFile) -> list[FunctionNode]:
    """Functions under `@torch.compile` and local functions handed to `torch.compile(...)`."""
    found: list[FunctionNode] = []
    for function in file.function_nodes:
        names = file.decorator_names(function)
        if names & DISABLED:
            continue
        if COMPILE in names or _partial_compile(file, function):
            found.append(function)
    for call in file.calls_to(COMPILE):
        if call.args and isinstance(call.args[0], ast.Name):
            function_or_none = file.functions.get(call.args[0].id)
            if function_or_none is not None and not _is_off(call):
                found.append(function_or_none)
    return list(dict.fromkeys(found))


def _is_off(call: ast.Call) -> bool:
    off = keyword(call, "disable")
    return isinstance(off, ast.Constant) and off.value is True


def _partial_compile(file: PythonFile, function: FunctionNode) -> bool:
    """`@functools.partial(torch.compile, ...)`."""
    return any(
        isinstance(decorator, ast.Call)
        and file.qualified(decorator.func) in ("functools.partial", "partial")
        and decorator.args
        and file.qualified(decorator.args[0]) == COMPILE
        for decorator in function.decorator_list
    )


def traced(file: PythonFile, function: FunctionNode) -> Iterator[ast.AST]:
    """Nodes that run while tracing: no `is_compiling` guards, no inner functions."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and _asks_whether_compiling(file, node.test):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _asks_whether_compiling(file: PythonFile, test: ast.expr) -> bool:
    return any(
        file.qualified(node.func).rsplit(".", 1)[-1] in _NOT_COMPILING
        for node in ast.walk(test)
        if isinstance(node, ast.Call)
    )


def tensor_names(file: PythonFile, function: FunctionNode) -> set[str]:
    """Names that certainly hold tensors: annotated parameters and what torch calls yield."""
    found = {
        argument.arg
        for argument in (*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs)
        if argument.annotation is not None
        and (
            file.qualified(argument.annotation) in TENSOR_ANNOTATIONS
            or getattr(argument.annotation, "value", None) in TENSOR_ANNOTATIONS
        )
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and yields_tensor(file, node.value, found):
                found.add(target.id)
    return found


# Calls below `torch.` whose result is a Python value, not a tensor.
_NOT_TENSORS = (
    "torch.is_",
    "torch.cuda.",
    "torch.device",
    "torch.finfo",
    "torch.iinfo",
    "torch.Size",
    "torch.get_",
    "torch.compile",
    "torch.distributed.",
    "torch.numel",
    "torch._",
    "torch.equal",
    "torch.allclose",
    "torch.Generator",
    "torch.jit.",
    "torch.backends.",
)
_PLAIN_ATTRIBUTES = frozenset(
    ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda", "itemsize", "nbytes")
)
_PLAIN_METHODS = frozenset(
    (
        "size",
        "dim",
        "numel",
        "stride",
        "is_contiguous",
        "item",
        "tolist",
        "data_ptr",
        "element_size",
        "nelement",
        "get_device",
        "is_floating_point",
        "is_complex",
        "storage_offset",
        "ndimension",
        "type",
        "equal",
        "allclose",
    )
)


def yields_tensor(file: PythonFile, node: ast.AST, tensors: set[str]) -> bool:
    """Whether an expression certainly yields a tensor."""
    match node:
        case ast.Name(id=name):
            return name in tensors
        case ast.Attribute(value=value, attr=attr):
            return (
                attr not in _PLAIN_ATTRIBUTES
                and attr in ("T", "mT", "data", "grad", "real")
                and (yields_tensor(file, value, tensors))
            )
        case ast.BinOp(left=left, right=right):
            return yields_tensor(file, left, tensors) or yields_tensor(file, right, tensors)
        case ast.UnaryOp(op=op, operand=operand):
            return not isinstance(op, ast.Not) and yields_tensor(file, operand, tensors)
        case ast.Compare(left=left, comparators=others, ops=ops):
            plain = any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in ops)
            return not plain and any(yields_tensor(file, n, tensors) for n in (left, *others))
        case ast.Subscript(value=value):
            return yields_tensor(file, value, tensors)
        case ast.Call(func=func):
            name = file.qualified(func)
            if name.startswith("torch."):
                return not name.startswith(_NOT_TENSORS) and name.rsplit(".", 1)[-1][0].islower()
            if isinstance(func, ast.Attribute) and func.attr not in _PLAIN_METHODS:
                return yields_tensor(file, func.value, tensors)
    return False
