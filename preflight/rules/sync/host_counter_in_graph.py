"""A host counter is read once at capture and never again at replay: pitfall 8."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile, descendants, identifiers, text
from preflight.syntax.python import PythonFile, names_in

RULE = Rule(
    name="host-counter-in-graph",
    code="SYN010",
    title="A host counter is advanced inside CUDA graph capture",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="the value of the capture is baked into the graph, each replay signals with the "
    "old number, and waits pass "
    "too early",
    help="keep the counter in device memory and let a kernel advance it",
    needs=(b"BeginCapture", b"cuda.graph"),
    fix=Grade.DISPLAY,
    pitfalls=(8,),
)
_BEGIN = re.compile(r"^(?:cuda|hip)StreamBeginCapture|^cuStreamBeginCapture")
_END = re.compile(r"^(?:cuda|hip)StreamEndCapture|^cuStreamEndCapture")


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        begins = [call.node for call in function.calls if _BEGIN.match(call.name)]
        ends = [call.node for call in function.calls if _END.match(call.name)]
        if not begins or not ends:
            continue
        first, last = begins[0].end_byte, ends[-1].start_byte
        passed: set[str] = set()
        for launch in file.launches:
            if first < launch.node.start_byte < last:
                arguments = launch.node.child_by_field_name("arguments")
                passed |= identifiers(arguments) if arguments else set()
        for node in descendants(function.node, "update_expression", "assignment_expression"):
            if first < node.start_byte < last and _advances(text(node)):
                name = next(iter(sorted(identifiers(node) & passed)), None)
                if name:
                    yield file.hit(file.at(node), _message(name))


def _message(name: str) -> str:
    return f"`{name}` advances on the host while the graph is captured"


def _advances(words: str) -> bool:
    return "++" in words or "--" in words or "+=" in words or "-=" in words


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for block in file.nodes(ast.With):
        captures = any(
            isinstance(item.context_expr, ast.Call)
            and file.qualified(item.context_expr.func) == "torch.cuda.graph"
            for item in block.items
        )
        if not captures:
            continue
        passed = {
            name
            for call, _ in file.calls_in(block)
            for argument in (*call.args, *(word.value for word in call.keywords))
            if isinstance(argument, ast.Name)
            for name in names_in(argument)
        }
        for node in ast.walk(block):
            if not isinstance(node, ast.AugAssign) or not isinstance(node.value, ast.Constant):
                continue
            if isinstance(node.target, ast.Name) and node.target.id in passed:
                yield file.hit(file.at(node), _message(node.target.id))
