"""The barriers of each kernel, for review before a block changes its role: pitfall 4."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.inventory import inventory
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="sync-inventory",
    code="SYN002",
    title="The barriers a kernel uses",
    severity=Severity.INFO,
    profile=Profile.AUDITOR,
    consequence="a block that changes its role must find no thread of its own in any of these "
    "barriers",
    help="compare with the inventory of the role it joins (`preflight barriers`), and meet on an "
    "idle id",
    needs=(b"__syncthreads", b"bar.", b"barrier."),
    pitfalls=(4,),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for function, row in inventory(file):
        if row.barriers:
            uses = ", ".join(
                f"{use.id} ({use.threads} threads, {use.uses} uses)" for use in row.barriers
            )
            body = function.node.child_by_field_name("body")
            end = body.start_byte if body else function.node.end_byte
            head = file.span(function.node.start_byte, end)
            yield file.hit(head, f"`{row.kernel}` uses barriers {uses}")
