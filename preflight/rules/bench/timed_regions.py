"""Timed regions: two clock reads in one block, and what runs on the GPU between them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.rules.device.factories import JIT_DECORATORS, creates_cuda_tensor
from preflight.syntax.python import FunctionNode, PythonFile, block_around, per_file

CLOCKS = {
    "time.time": "s",
    "time.perf_counter": "s",
    "time.monotonic": "s",
    "timeit.default_timer": "s",
    "time.time_ns": "ns",
    "time.perf_counter_ns": "ns",
    "time.monotonic_ns": "ns",
}
# A call whose name holds one of these may wait for the GPU or hand the work to somebody else.
_WAITING = (
    "sync",
    "barrier",
    "elapsed_time",
    "do_bench",
    "benchmark",
    "wait",
    "profile",
    "measure",
    "timeit",
)
_READING = frozenset(
    ("item", "cpu", "tolist", "numpy", "join", "result", "get", "block_until_ready")
)
_ELSEWHERE = ("subprocess.", "os.system", "ray.", "requests.")


@dataclass(frozen=True)
class TimedRegion:
    """The statements between two clock reads of one block; `start` names the first reading."""

    begin: ast.stmt
    body: tuple[ast.stmt, ...]
    end: ast.stmt
    start: str


@per_file
def timed_regions(file: PythonFile) -> list[TimedRegion]:
    """Regions of the form `t0 = clock()` ... `clock() - t0`, or `t1 = clock()`."""
    blocks: dict[int, list[ast.stmt]] = {}
    for call, name in file.calls:
        if name in CLOCKS and isinstance(file.parent(call), ast.Assign):
            block = block_around(file, file.statement_of(call))
            blocks[id(block)] = block
    return [region for block in blocks.values() for region in _in_block(file, block)]


def _in_block(file: PythonFile, block: list[ast.stmt]) -> Iterator[TimedRegion]:
    begin: tuple[int, str] | None = None
    for index, statement in enumerate(block):
        if (
            begin is not None
            and _reads_clock(file, statement)
            and _is_second(statement, begin[1], block, index)
        ):
            yield TimedRegion(
                block[begin[0]], tuple(block[begin[0] + 1 : index]), statement, begin[1]
            )
            begin = None
        name = _clock_target(file, statement)
        if name:
            begin = (index, name)


def _is_second(statement: ast.stmt, start: str, block: list[ast.stmt], index: int) -> bool:
    """The reading is subtracted from, here or later in the block."""
    for later in block[index:]:
        for node in ast.walk(later):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                names = {n.id for n in ast.walk(node.right) if isinstance(n, ast.Name)}
                attributes = {n.attr for n in ast.walk(node.right) if isinstance(n, ast.Attribute)}
                if start in names | attributes:
                    return True
    return False


def _clock_target(file: PythonFile, statement: ast.stmt) -> str | None:
    """`t` of `t = time.time()`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    if (
        not isinstance(statement.value, ast.Call)
        or file.qualified(statement.value.func) not in CLOCKS
    ):
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else None


def _reads_clock(file: PythonFile, statement: ast.stmt) -> bool:
    if hasattr(statement, "body"):
        return False
    return any(name in CLOCKS for _, name in file.calls_in(statement))


class GpuKnowledge:
    """What one file proves about the GPU: jitted functions, functions that launch, CUDA tensors."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.jitted = {
            name
            for name, function in file.functions.items()
            if file.decorator_names(function) & JIT_DECORATORS
        }
        self._compiled = _compiled_names(file)
        self._launching = self._functions_that_launch()
        self._waiting = self._functions_that_wait()

    def is_jitted(self, name: str, scope: ast.AST) -> bool:
        """Whether a name seen from a scope is a Triton kernel or a compiled function."""
        return name in self.jitted or bool(
            self._compiled.get(name, set()) & {scope, self.file.tree}
        )

    def _functions_that_launch(self) -> set[str]:
        return {
            name
            for name, function in self.file.functions.items()
            if name not in self.jitted
            and any(self._is_kernel_launch(c) for c, _ in self.file.calls_in(function))
        }

    def _functions_that_wait(self) -> set[str]:
        found: set[str] = set()
        for _ in range(3):
            for name, function in self.file.functions.items():
                if name not in found and self._any_waits(function, found):
                    found.add(name)
        return found

    def _any_waits(self, root: ast.AST, waiting: set[str]) -> bool:
        return any(
            self._waits(call, name) or name.rsplit(".", 1)[-1] in waiting
            for call, name in self.file.calls_in(root)
        )

    def _waits(self, call: ast.Call, name: str) -> bool:
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name
        if name.startswith(_ELSEWHERE):
            return True
        if any(word in last.lower() for word in _WAITING):
            return True
        return isinstance(call.func, ast.Attribute) and last in _READING

    def waits(self, statements: Iterator[ast.stmt] | tuple[ast.stmt, ...] | list[ast.stmt]) -> bool:
        """Whether a statement may wait for the GPU, directly or in a function of this file."""
        for statement in statements:
            if self._any_waits(statement, self._waiting):
                return True
            for node in ast.walk(statement):
                if isinstance(node, (ast.With, ast.AsyncWith)) and _hands_over(self.file, node):
                    return True
        return False

    def _is_kernel_launch(self, call: ast.Call) -> bool:
        """`kernel[grid](...)` of a jitted function of this file, or one with launch options."""
        if not isinstance(call.func, ast.Subscript):
            return False
        target = self.file.qualified(call.func.value)
        words = {word.arg for word in call.keywords}
        return (
            target in self.jitted
            or bool(words & {"num_warps", "num_stages", "num_ctas"})
            or (target.endswith(("_kernel", "_kernel_")) and "triton" in self.file.aliases.values())
        )

    def cuda_names(self, scope: FunctionNode | ast.Module) -> set[str]:
        """Names in a scope that hold something certainly on a GPU."""
        found: set[str] = set()
        assignments = [node for node in ast.walk(scope) if isinstance(node, ast.Assign)]
        for node in sorted(assignments, key=lambda node: node.lineno):
            if self._is_cuda(node.value, found):
                for target in node.targets:
                    found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        return found

    def _is_cuda(self, node: ast.AST, known: set[str]) -> bool:
        """What certainly lives on a GPU, and what arithmetic and torch functions make of it."""
        if creates_cuda_tensor(self.file, node):
            return True
        match node:
            case ast.Name(id=name):
                return name in known
            case ast.Tuple(elts=items):
                return any(self._is_cuda(item, known) for item in items)
            case ast.BinOp(left=left, right=right):
                return self._is_cuda(left, known) or self._is_cuda(right, known)
            case ast.Call(args=args) if self.file.qualified(node.func).startswith("torch."):
                return any(self._is_cuda(arg, known) for arg in args)
        return False

    def launch_in(
        self, statements: tuple[ast.stmt, ...], scope: FunctionNode | ast.Module
    ) -> ast.Call | None:
        """The first call that certainly starts GPU work."""
        cuda = self.cuda_names(scope)
        for statement in statements:
            for call, name in self.file.calls_in(statement):
                if self._is_kernel_launch(call) or name in self._launching:
                    return call
                if self._takes_cuda(call, name, cuda):
                    return call
        return None

    def _takes_cuda(self, call: ast.Call, name: str, cuda: set[str]) -> bool:
        """A call of, or with, a name that is certainly on the GPU, other than a look at it."""
        if name in (
            "print",
            "len",
            "str",
            "repr",
            "isinstance",
            "type",
            "id",
            "range",
            "list",
            "tuple",
            "zip",
            "enumerate",
        ):
            return False
        operands = [*call.args, *(word.value for word in call.keywords)]
        given = any(isinstance(arg, ast.Name) and arg.id in cuda for arg in operands)
        if isinstance(call.func, ast.Name):
            return given or call.func.id in cuda
        if isinstance(call.func, ast.Attribute):
            owner = call.func.value
            owned = isinstance(owner, ast.Name) and owner.id in cuda
            quiet = call.func.attr in _METADATA
            return (owned and not quiet) or (given and name.startswith("torch."))
        return False


_METADATA = frozenset(
    (
        "size",
        "dim",
        "numel",
        "stride",
        "data_ptr",
        "element_size",
        "record",
        "parameters",
        "eval",
        "train",
        "append",
        "view",
        "state_dict",
        "named_parameters",
        "reshape",
        "t",
        "expand",
        "detach",
        "is_contiguous",
        "items",
        "keys",
        "values",
        "format",
        "elapsed_time",
        "query",
        "register_forward_hook",
        "requires_grad_",
        "zero_grad",
        "untyped_storage",
        "modules",
    )
)


def _compiled_names(file: PythonFile) -> dict[str, set[ast.AST]]:
    """Names that torch.compile made or decorates, with the scopes that bind them."""
    found: dict[str, set[ast.AST]] = {
        name: {file.tree}
        for name, function in file.functions.items()
        if "torch.compile" in file.decorator_names(function)
    }
    for node in file.nodes(ast.Assign):
        if isinstance(node.value, ast.Call) and file.qualified(node.value.func) == "torch.compile":
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).add(file.scope_of(node))
    return found


def _hands_over(file: PythonFile, node: ast.With | ast.AsyncWith) -> bool:
    """A profiler, a timer or graph capture: somebody else measures or records."""
    for item in node.items:
        context = item.context_expr
        target = context.func if isinstance(context, ast.Call) else context
        name = file.qualified(target).lower()
        if any(word in name for word in ("profile", "timer", "graph", "sync", 'device("meta')):
            return True
    return False


@per_file
def gpu_knowledge(file: PythonFile) -> GpuKnowledge:
    """What a file proves about the GPU, computed once for all rules."""
    return GpuKnowledge(file)
