"""Barrier 0 belongs to `__syncthreads`: pitfall 4."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.threads import block_syncs, named_barriers, reachable
from preflight.syntax.cuda import CudaCall, CudaFile, CudaFunction

RULE = Rule(
    name="named-barrier-zero",
    code="SYN003",
    title="A named barrier uses id 0 beside `__syncthreads`",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="both count arrivals on the same hardware barrier, and the kernel hangs or stops "
    "with an illegal instruction",
    help="use an idle id from 1 to 15 (`preflight barriers` lists them)",
    needs=(b"bar.", b"barrier."),
    fix=Grade.DISPLAY,
    pitfalls=(4,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        for asm, barrier in named_barriers(file, function):
            if file.value_of_text(barrier.id) != 0 or barrier.threads is None:
                continue
            sync = _block_sync_of_the_same_kernel(
                file, function, file.value_of_text(barrier.threads)
            )
            if sync is not None:
                yield file.hit(
                    file.at(asm.node),
                    f"`{barrier.opcode} 0, {barrier.threads}` shares barrier 0 with "
                    "`__syncthreads`",
                    related=(file.related(sync.node.start_byte, "`__syncthreads` is used here"),),
                )


def _block_sync_of_the_same_kernel(
    file: CudaFile, function: CudaFunction, threads: int | None
) -> CudaCall | None:
    """A `__syncthreads` that runs in a kernel together with the barrier.

    A count equal to the kernel's launch bound is the whole block, as `__syncthreads` itself.
    """
    by_name = {item.name: item for item in file.functions}
    roots = [item for item in file.functions if item.is_kernel] or file.functions
    for root in roots:
        names = reachable(file, root)
        bound = file.value_of_text(root.launch_bound) if root.launch_bound else None
        if function.name not in names or (bound is not None and bound == threads):
            continue
        for name in sorted(names):
            for sync in block_syncs(by_name[name]):
                return sync
    return None
