"""One barrier, two ideas of how many threads take part."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.threads import named_barriers
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="barrier-count-conflict",
    code="SYN005",
    title="One barrier id is used with two thread counts in one kernel",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="arrivals of one phase can complete the other's barrier: data is read too early, "
    "or the block hangs",
    help="give each group of threads its own id, or the same count everywhere",
    needs=(b"bar.", b"barrier."),
    pitfalls=(4,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        first: dict[int, tuple[int, int]] = {}
        for asm, barrier in named_barriers(file, function):
            identity = file.value_of_text(barrier.id)
            threads = file.value_of_text(barrier.threads) if barrier.threads else None
            if identity is None or threads is None:
                continue
            known, place = first.setdefault(identity, (threads, asm.node.start_byte))
            if known != threads:
                yield file.hit(
                    file.at(asm.node),
                    f"barrier {identity} counts {threads} threads here and {known} elsewhere in "
                    f"`{function.name}`",
                    related=(file.related(place, f"{known} threads here"),),
                )
