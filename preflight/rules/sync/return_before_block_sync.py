"""Threads that leave before a block barrier cannot do their share of what it guards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.threads import (
    block_syncs,
    condition_of,
    depends_on_thread,
    enclosing_ifs,
    is_constexpr,
    thread_dependent_names,
    traps,
    warp_uniform_names,
)
from preflight.syntax.cuda import CudaFile, identifiers, inside, text

if TYPE_CHECKING:
    from tree_sitter import Node

RULE = Rule(
    name="return-before-block-sync",
    code="SYN007",
    title="Some threads return before a `__syncthreads` of the same kernel",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="they miss the cooperative work after the return, and tiles they should have "
    "loaded hold old data",
    help="keep all threads to the last barrier, and guard the loads and stores instead of "
    "returning",
    needs=(b"__syncthreads",),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.kernels:
        syncs = block_syncs(function)
        if not syncs:
            continue
        names = thread_dependent_names(file, function)
        warps = warp_uniform_names(function)
        last = syncs[-1].node.start_byte
        for node in function.returns:
            if node.start_byte > last or _in_lambda(node):
                continue
            for branch in enclosing_ifs(function, node)[-1:]:
                condition = condition_of(branch)
                if condition is None or is_constexpr(branch) or traps(branch):
                    continue
                if any(inside(call.node, branch) for call in syncs):
                    continue  # the threads that leave meet the others at barriers of their own
                whole_warps = bool(identifiers(condition) & warps) or "threadIdx.x / 32" in text(
                    condition
                )
                later = next((c for c in syncs if c.node.start_byte > branch.end_byte), None)
                if later and depends_on_thread(condition, names) and not whole_warps:
                    yield file.hit(
                        file.at(node),
                        f"threads of `{function.name}` return here and miss the block barrier "
                        "below",
                        related=(file.related(later.node.start_byte, "the barrier they miss"),),
                    )


def _in_lambda(node: Node) -> bool:
    """The return leaves a lambda and not the kernel."""
    up = node.parent
    while up is not None and up.type != "function_definition":
        if up.type == "lambda_expression":
            return True
        up = up.parent
    return False
