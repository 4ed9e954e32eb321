"""A flag that is set and cleared: pitfall 8."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.sync.flags import constant_writes, polled_flags
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="flag-set-and-cleared",
    code="SYN008",
    title="A kernel resets the flag that it polls",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="a fast GPU can set the flag for the next round before a slow one has cleared it "
    "for this one: now and then "
    "a wait hangs or passes too early",
    help="wait for a sequence number that only grows (`< round`), and never reset it in the kernel",
    needs=(b"while", b"for (;"),
    fix=Grade.DISPLAY,
    pitfalls=(8,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function in file.clean_functions:
        seen: set[int] = set()
        for name, loop in polled_flags(function):
            for node, value in constant_writes(file, function, name):
                if node.start_byte in seen or node.start_byte < loop.start_byte:
                    continue
                seen.add(node.start_byte)
                yield file.hit(
                    file.at(node),
                    f"`{name}` is reset to {value} by the kernel that polls it",
                    related=(file.related(loop.start_byte, f"`{name}` is polled here"),),
                )
