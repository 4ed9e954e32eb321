"""Flags in memory that kernels poll: which name a spin loop waits on, and what is written to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.rules.sync.threads import condition_of, shared_names, spin_loops
from preflight.syntax.cuda import CudaFile, CudaFunction, descendants, identifiers, text

if TYPE_CHECKING:
    from tree_sitter import Node

_MBARRIER = re.compile(
    r"mbar|phase|parity|full_bar|empty_bar|try_wait|test_wait|semaphore", re.IGNORECASE
)
_SYMBOLIC = ("identifier", "field_expression", "binary_expression")


def polled_flags(function: CudaFunction) -> Iterator[tuple[str, Node]]:
    """Pointer parameters a spin loop reads, with the loop; no shared memory, no mbarriers."""
    parameters = pointer_parameters(function)
    shared = shared_names(function)
    for loop in spin_loops(function):
        words = text(loop)
        if _MBARRIER.search(words):
            continue
        for name in sorted(identifiers(loop) & parameters - shared):
            yield name, loop


def pointer_parameters(function: CudaFunction) -> set[str]:
    declarator = next(descendants(function.node, "function_declarator"), None)
    if declarator is None:
        return set()
    found = set()
    for pointer in descendants(declarator, "pointer_declarator"):
        found |= identifiers(pointer)
    return found


def constant_writes(
    file: CudaFile, function: CudaFunction, name: str
) -> Iterator[tuple[Node, int]]:
    """Plain or atomic stores of a literal to `name`, `*name` or `name[...]`."""
    target = re.compile(
        rf"^\(?\*?\s*\(?{re.escape(name)}\b\s*(?:\[.*\])?\)?$|^\*\s*\(.*\b{re.escape(name)}\b.*\)$",
        re.DOTALL,
    )
    for node in descendants(function.node, "assignment_expression"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or operator is None or operator.type != "=":
            continue
        value = file.value(right)
        if value is not None and target.match(text(left)):
            yield node, value
    for call in function.calls_to(
        "atomicExch",
        "atomicExch_system",
        "st_release",
        "st_relaxed",
        "store_release",
        "st_volatile",
    ):
        if len(call.arguments) >= 2 and name in identifiers(call.arguments[0]):
            value = file.value(call.arguments[1])
            if value is not None:
                yield call.node, value


def exact_comparison(loop: Node) -> str | None:
    """The right side of `load != expected` in a spin condition, when it is no literal."""
    condition = condition_of(loop)
    if condition is None:
        return None
    for node in descendants(condition, "binary_expression"):
        operator = node.child_by_field_name("operator")
        right = node.child_by_field_name("right")
        differs = operator is not None and operator.type == "!="
        if differs and right is not None and right.type in _SYMBOLIC:
            return text(right)
    return None


def is_mbarrier_wait(loop: Node) -> bool:
    return bool(_MBARRIER.search(text(loop)))
