"""`__syncthreads` that only some threads of the block reach."""

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
    in_loop,
    is_constexpr,
    leaves_kernel,
    thread_dependent_names,
)
from preflight.syntax.cuda import CudaCall, CudaFile, CudaFunction, inside

if TYPE_CHECKING:
    from tree_sitter import Node

RULE = Rule(
    name="block-sync-in-divergent-branch",
    code="SYN006",
    title="`__syncthreads` stands in a branch that only some threads take, and the others go on "
    "to the next barrier",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the threads meet at different barriers, so data is read before it is written, or "
    "the block hangs",
    help="move the barrier out of the branch, or use a named barrier with the number of threads "
    "that take part",
    needs=(b"__syncthreads",),
    pitfalls=(4,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        syncs = block_syncs(function)
        if not syncs:
            continue
        names = thread_dependent_names(file, function)
        for sync in syncs:
            branch = _divergent_branch(function, sync, syncs, names)
            if branch is not None:
                yield file.hit(
                    file.at(sync.node),
                    f"only some threads of `{function.name}` reach this `{sync.name}`",
                    related=(
                        file.related(
                            branch.start_byte, "this condition depends on the thread index"
                        ),
                    ),
                )


def _divergent_branch(
    function: CudaFunction, sync: CudaCall, syncs: list[CudaCall], names: set[str]
) -> Node | None:
    for branch in enclosing_ifs(function, sync.node):
        condition = condition_of(branch)
        if condition is None or inside(sync.node, condition) or is_constexpr(branch):
            continue
        if depends_on_thread(condition, names) and _others_go_on(function, branch, sync, syncs):
            return branch
    return None


def _others_go_on(
    function: CudaFunction, branch: Node, sync: CudaCall, syncs: list[CudaCall]
) -> bool:
    """The threads that skip the barrier stay in the kernel and come to another block barrier.

    A block barrier does not wait for threads that have exited: leaving is no mistake.
    """
    taken = branch.child_by_field_name("consequence")
    other = branch.child_by_field_name("alternative")
    if not inside(sync.node, taken):
        taken, other = other, taken
    if other is not None:
        has_own = any(inside(call.node, other) for call in syncs)
        if has_own or leaves_kernel(other):
            return False
    if leaves_kernel(taken):
        return False
    elsewhere = [call for call in syncs if call.node.start_byte >= branch.end_byte]
    return bool(elsewhere) or in_loop(function, branch)
