"""More threads in a block than any GPU takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.launch.limits import MOST_THREADS
from preflight.syntax.cuda import CudaFile
from preflight.syntax.python import PythonFile, integer, keyword

RULE = Rule(
    name="threads-over-limit",
    code="GEO001",
    title="A block has more threads than the hardware takes",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the launch fails, and a timing loop that does not check errors reports the time "
    "of nothing",
    help=f"use at most {MOST_THREADS} threads a block (32 warps of 32)",
    needs=(b"<<<", b"__launch_bounds__", b"num_warps"),
)
MOST_WARPS = 32


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for launch in file.launches:
        if len(launch.config) < 2 or launch.node.has_error:
            continue
        extents = file.dimensions(launch.config[1], launch.function)
        if extents and prod(extents) > MOST_THREADS:
            shape = " x ".join(map(str, extents))
            count = f"{shape} = {prod(extents)}" if len(extents) > 1 else shape
            yield file.hit(
                file.at(launch.config[1]),
                f"`{launch.kernel}` is launched with {count} threads a block",
            )
    for function in file.clean_functions:
        bound = file.value_of_text(function.launch_bound) if function.launch_bound else None
        if bound is not None and bound > MOST_THREADS:
            start = function.node.start_byte
            yield file.hit(
                file.line_span(file.line_of(start)),
                f"`{function.name}` declares launch bounds of {bound} threads a block",
            )


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if b"triton" not in file.data:
        return
    for call, _ in file.calls:
        given = keyword(call, "num_warps")
        warps = integer(given)
        if given is not None and warps is not None and warps > MOST_WARPS:
            yield file.hit(
                file.at(given), f"`num_warps={warps}` makes {warps * 32} threads a block"
            )
