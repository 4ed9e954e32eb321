"""Data flow from the thread index, spin loops, barriers: what the sync rules share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.syntax.cuda import (
    AsmStatement,
    CudaCall,
    CudaFile,
    CudaFunction,
    descendants,
    identifiers,
    inside,
    text,
)
from preflight.syntax.ptx import NamedBarrier, named_barrier

if TYPE_CHECKING:
    from tree_sitter import Node

BLOCK_SYNCS = ("__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or")
_THREAD_RANK = re.compile(r"[\w.:]*\b(?:thread_rank|canonical_warp_idx\w*|canonical_lane_idx)\s*\(")
_TRANSPARENT = re.compile(
    r"^(?:static_cast|reinterpret_cast|int|unsigned|min|max|abs|__popc|__ffs|std::min|std::max)\b"
)
_THREAD_INDEX = re.compile(r"\bthreadIdx\b|%(?:tid|laneid|warpid)\b|\bthread_rank\s*\(")
_BLOCK_WIDE = re.compile(r"__syncthreads_(?:or|and|count)\b")
_WARP_WIDTH = re.compile(
    r"/\s*(?:32|WARP_SIZE|warpSize|WARP_THREADS|kWarpSize)\b|>>\s*5\b", re.IGNORECASE
)
_LOADS = re.compile(
    r"\*\s*\w|\w\s*\[|ld_|load|volatile|atomic|\bacquire|__ldg|fetch", re.IGNORECASE
)
_LEAVES = re.compile(r"\b(?:trap|__trap|abort|assert|exit|__nanosleep)\b|\btrap;")


def thread_dependent_names(file: CudaFile, function: CudaFunction) -> set[str]:
    """Variables whose value flows from the thread index, over up to three definitions."""
    found: set[str] = set()
    twice = _declared_twice(function)
    assignments = [(name, value) for name, value in _assignments(function) if name not in twice]
    for _ in range(3):
        before = len(found)
        for name, value in assignments:
            if name not in found and depends_on_thread(value, found):
                found.add(name)
        if len(found) == before:
            break
    return found


def _declared_twice(function: CudaFunction) -> set[str]:
    """Names that mean several variables in one function; nothing is certain about those."""
    counts: dict[str, int] = {}
    for node in descendants(
        function.node, "init_declarator", "declaration", "parameter_declaration"
    ):
        target = node.child_by_field_name("declarator")
        if target is not None and target.type in ("identifier", "reference_declarator"):
            name = text(target).lstrip("& ")
            counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if count > 1}


def _assignments(function: CudaFunction) -> Iterator[tuple[str, Node]]:
    for node in descendants(function.node, "init_declarator", "assignment_expression"):
        target = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if target is not None and value is not None:
            name = text(target).lstrip("*& ")
            if name.isidentifier():
                yield name, value


def depends_on_thread(node: Node, names: set[str]) -> bool:
    """Whether an expression certainly reads the thread index or a name that flows from it.

    What an unknown call or constructor makes of the index is not known: `Info info(tid)` may hold
    nothing but facts of the whole block.
    """
    if _BLOCK_WIDE.search(text(node)):
        return False
    return _reads_thread(node, names)


def _reads_thread(node: Node, names: set[str]) -> bool:
    if node.type == "identifier":
        return text(node) in names
    if node.type == "call_expression":
        words = text(node)
        function = node.child_by_field_name("function")
        if _THREAD_RANK.match(words):
            return True
        if function is None or not _passes_thread_on(text(function), words):
            return False
    if node.type == "field_expression":
        argument = node.child_by_field_name("argument")
        return argument is not None and text(argument) == "threadIdx"
    if node.type in ("argument_list", "initializer_list") and not _is_argument_list(node):
        return False
    return any(_reads_thread(child, names) for child in node.named_children)


def _passes_thread_on(function: str, call: str) -> bool:
    """Casts, min and max; a shuffle only of the warp's number, or it may broadcast."""
    if function.startswith("__shfl"):
        return bool(_WARP_WIDTH.search(call))
    return bool(_TRANSPARENT.match(function))


def _is_argument_list(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "call_expression"


def warp_uniform_names(function: CudaFunction) -> set[str]:
    """Names that hold a warp's number: the thread index divided by the warp width."""
    found = {
        name
        for name, value in _assignments(function)
        if _WARP_WIDTH.search(text(value)) and _THREAD_INDEX.search(text(value))
    }
    for name, value in _assignments(function):
        if "__shfl_sync" in text(value) and identifiers(value) & found:
            found.add(name)
    return found


def reachable(file: CudaFile, function: CudaFunction) -> set[str]:
    """Functions of this file that a function comes to, itself included."""
    by_name = {item.name: item for item in file.functions}
    found: set[str] = set()
    queue = [function.name]
    while queue:
        name = queue.pop()
        if name not in found and name in by_name:
            found.add(name)
            queue += [call.name for call in by_name[name].calls]
    return found


def block_syncs(function: CudaFunction) -> list[CudaCall]:
    return function.calls_to(*BLOCK_SYNCS)


def condition_of(node: Node) -> Node | None:
    return node.child_by_field_name("condition")


def is_constexpr(branch: Node) -> bool:
    return any(child.type == "constexpr" for child in branch.children)


def leaves_kernel(node: Node | None) -> bool:
    """The branch ends in `return`, a trap or an abort."""
    if node is None:
        return False
    if node.type == "else_clause":
        node = node.named_children[-1] if node.named_children else None
        return leaves_kernel(node)
    if node.type == "return_statement" or _LEAVES.search(text(node)[-80:]):
        return True
    if node.type == "compound_statement" and node.named_children:
        return leaves_kernel(node.named_children[-1])
    return False


def traps(node: Node) -> bool:
    return bool(re.search(r"\b(?:__trap|trap|abort|assert)\b", text(node)))


def enclosing_ifs(function: CudaFunction, node: Node) -> list[Node]:
    return [branch for branch in function.ifs if inside(node, branch) and branch.id != node.id]


def in_loop(function: CudaFunction, node: Node) -> bool:
    return any(inside(node, loop) for loop in function.loops)


def spin_loops(function: CudaFunction) -> list[Node]:
    """Loops that do nothing but wait for memory to change: a loading condition and an idle body."""
    return [loop for loop in function.loops if _is_spin(loop)]


def _is_spin(loop: Node) -> bool:
    condition = condition_of(loop)
    body = loop.child_by_field_name("body")
    if condition is None or body is None:
        return False
    words = text(condition)
    idle = not re.sub(
        r"//[^\n]*|/\*.*?\*/|__nanosleep\s*\([^)]*\)|__threadfence\w*\s*\(\s*\)|[\s;{}]",
        "",
        text(body),
    )
    if loop.type == "for_statement":
        return idle and bool(_LOADS.search(words)) and loop.child_by_field_name("update") is None
    if idle:
        return bool(_LOADS.search(words))
    return loop.type == "do_statement" and _reloads(condition, body)


def _reloads(condition: Node, body: Node) -> bool:
    """`do { v = ld(flag); } while (v != x);`: the body only loads what the condition tests."""
    tested = identifiers(condition)
    statements = [child for child in body.named_children if child.type != "comment"]
    return 0 < len(statements) <= 2 and any(
        _LOADS.search(text(statement)) and tested & identifiers(statement)
        for statement in statements
    )


def shared_names(function: CudaFunction) -> set[str]:
    """Names declared `__shared__` in a function."""
    pattern = r"__shared__[^;=]*?\b(\w+)\s*(?:\[|;|=)"
    return set(re.findall(pattern, text(function.node)))


def named_barriers(
    file: CudaFile, function: CudaFunction
) -> Iterator[tuple[AsmStatement, NamedBarrier]]:
    """Every hardware barrier in a function's inline PTX, operands resolved to source texts."""
    for asm in function.asms:
        for instruction in asm.instructions:
            barrier = named_barrier(instruction)
            if barrier is not None:
                threads = asm.operand(barrier.threads) if barrier.threads else None
                yield asm, NamedBarrier(asm.operand(barrier.id), threads, barrier.opcode)
