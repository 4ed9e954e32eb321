"""A wait for one exact value misses it when the writer is faster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.flags import exact_comparison, is_mbarrier_wait
from preflight.rules.sync.threads import spin_loops
from preflight.syntax.cuda import CudaFile, text

if TYPE_CHECKING:
    from tree_sitter import Node

RULE = Rule(
    name="exact-equality-spin",
    code="SYN009",
    title="A spin loop waits for one exact value of a sequence",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="when the writer has gone one round further the value is never seen, and the "
    "block spins for ever",
    help="wait while the loaded number is smaller (`<`), with numbers that only grow",
    needs=(b"while", b"for (;"),
    fix=Grade.DISPLAY,
    pitfalls=(8,),
)
_SWAP = re.compile(r"CAS\b|CAS_|compare_exchange|cmpxchg|atom\.\S*cas")


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        for loop in spin_loops(function):
            expected = exact_comparison(loop)
            if expected is not None and not is_mbarrier_wait(loop) and not _swaps(loop):
                yield file.hit(
                    file.span(
                        loop.start_byte,
                        min(loop.end_byte, file.line_span(file.line_of(loop.start_byte)).end_byte),
                    ),
                    f"the loop in `{function.name}` waits until the flag is exactly `{expected}`",
                )


def _swaps(loop: Node) -> bool:
    """A compare-and-swap that is tried again: it waits for nobody."""
    return bool(_SWAP.search(text(loop)))
