"""Spinning blocks that fill the GPU: pitfall 7."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Related, Severity
from preflight.rule import Rule
from preflight.rules.sync.flags import polled_flags
from preflight.syntax.cuda import CudaFile, CudaFunction

RULE = Rule(
    name="spin-grid-over-residency",
    code="GEO004",
    title="A spinning kernel has as many blocks as the GPU has SMs, or more",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the spinning blocks hold every SM, the block they wait for never becomes "
    "resident, and the card deadlocks",
    help="launch fewer spinning blocks than SMs (reserve one for the signal's source), or launch "
    "cooperatively",
    needs=(b"<<<",),
    fix=Grade.DISPLAY,
    pitfalls=(7,),
)
_OCCUPANCY = (
    b"cudaLaunchCooperativeKernel",
    b"OccupancyMaxActiveBlocks",
    b"cudaLaunchAttributeCooperative",
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    hosts = [host for host in config.hosts.values() if host.sms is not None]
    if not hosts or any(word in file.data for word in _OCCUPANCY):
        return
    spinning = {f.name: f for f in file.kernels if any(True for _ in polled_flags(f))}
    for launch in file.launches:
        function = spinning.get(launch.kernel)
        if function is None or not launch.config or launch.node.has_error:
            continue
        extents = file.dimensions(launch.config[0], launch.function)
        if not extents:
            continue
        blocks = prod(extents)
        for host in hosts:
            if host.sms is not None and blocks >= host.sms:
                yield file.hit(
                    file.at(launch.config[0]),
                    f"`{launch.kernel}` spins in {blocks} blocks, host `{host.name}` has "
                    f"{host.sms} SMs",
                    related=(_spin(file, function),),
                )


def _spin(file: CudaFile, function: CudaFunction) -> Related:
    name, loop = next(iter(polled_flags(function)))
    return file.related(loop.start_byte, f"it waits for `{name}` here")
