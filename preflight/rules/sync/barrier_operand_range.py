"""Barrier operands the hardware does not have."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.threads import named_barriers
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="barrier-operand-range",
    code="SYN004",
    title="A barrier id or thread count is outside what the hardware takes",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the assembler refuses it, or the barrier never completes",
    help="ids go from 0 to 15; the count is a multiple of the warp size (32), at most 1024",
    needs=(b"bar.", b"barrier."),
    pitfalls=(4,),
)
LAST_ID = 15
WARP = 32
MOST_THREADS = 1024


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        for asm, barrier in named_barriers(file, function):
            identity = file.value_of_text(barrier.id)
            threads = file.value_of_text(barrier.threads) if barrier.threads else None
            if identity is not None and not 0 <= identity <= LAST_ID:
                yield file.hit(
                    file.at(asm.node), f"barrier id {identity} is not between 0 and {LAST_ID}"
                )
            if threads is None:
                continue
            if threads % WARP or threads <= 0:
                yield file.hit(
                    file.at(asm.node), f"a barrier for {threads} threads: not a multiple of {WARP}"
                )
            elif threads > MOST_THREADS:
                yield file.hit(
                    file.at(asm.node), f"a barrier for {threads} threads: more than a block has"
                )
