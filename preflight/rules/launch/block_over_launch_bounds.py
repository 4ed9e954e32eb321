"""A block larger than the kernel was compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="block-over-launch-bounds",
    code="GEO002",
    title="A launch has more threads than the kernel's `__launch_bounds__`",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the launch fails with 'too many resources requested', and an unchecked loop "
    "times nothing",
    help="raise the bound or launch fewer threads; derive both from one constant",
    needs=(b"__launch_bounds__",),
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    bounds: dict[str, set[int | None]] = {}
    for function in file.functions:
        if function.launch_bound:
            bounds.setdefault(function.name, set()).add(file.value_of_text(function.launch_bound))
    for launch in file.launches:
        known = bounds.get(launch.kernel, set())
        if len(known) != 1 or len(launch.config) < 2 or launch.node.has_error:
            continue
        bound = next(iter(known))
        extents = file.dimensions(launch.config[1], launch.function)
        if bound is not None and extents and prod(extents) > bound:
            yield file.hit(
                file.at(launch.config[1]),
                f"`{launch.kernel}` is launched with {prod(extents)} threads, its launch bound is "
                f"{bound}",
            )
