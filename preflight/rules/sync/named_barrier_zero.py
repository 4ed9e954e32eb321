"""Barrier 0 belongs to `__syncthreads`: pitfall 4."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.threads import block_syncs, named_barriers
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="named-barrier-zero",
    code="SYN003",
    title="A named barrier uses id 0 beside `__syncthreads`",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="both count arrivals on the same hardware barrier, and the kernel hangs or stops with an illegal instruction",
    help="use an idle id from 1 to 15 (`preflight barriers` lists them)",
    needs=(b"bar.", b"barrier."),
    fix=Grade.DISPLAY,
    pitfalls=(4,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    syncs = [call for function in file.functions for call in block_syncs(function)]
    if not syncs:
        return
    first = syncs[0].node.start_byte
    for function in file.clean_functions:
        for asm, barrier in named_barriers(file, function):
            if file.value_of_text(barrier.id) == 0 and barrier.threads is not None:
                yield file.hit(
                    file.at(asm.node),
                    f"`{barrier.opcode} 0, {barrier.threads}` shares barrier 0 with `__syncthreads`",
                    related=(file.related(first, "`__syncthreads` is used here"),),
                )
