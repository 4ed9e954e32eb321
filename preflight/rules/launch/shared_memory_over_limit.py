"""More dynamic shared memory than a block can have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.launch.limits import STATIC_SMEM_BYTES, smem_optin_bytes
from preflight.syntax.cuda import CudaFile

RULE = Rule(
    name="shared-memory-over-limit",
    code="GEO003",
    title="A launch asks for more shared memory than it can get",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the launch fails with 'invalid argument', and an unchecked loop times nothing",
    help="call `cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)` "
    "before the launch, or use "
    "smaller tiles",
    needs=(b"<<<",),
    fix=Grade.DISPLAY,
)
_OPT_IN = (b"FuncSetAttribute", b"MaxDynamicSharedMemorySize", b"MAX_DYNAMIC_SHARED_SIZE_BYTES")


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    opted_in = any(word in file.data for word in _OPT_IN)
    for launch in file.launches:
        if len(launch.config) < 3 or launch.node.has_error:
            continue
        size = file.value(launch.config[2])
        if size is None:
            continue
        place = file.at(launch.config[2])
        for host in config.hosts.values():
            limit = smem_optin_bytes(host)
            if limit is not None and size > limit:
                yield file.hit(
                    place,
                    f"`{launch.kernel}` asks for {size} bytes of shared memory, host "
                    f"`{host.name}` gives a block {limit}",
                    help="use smaller tiles or fewer stages for this host",
                )
        if size > STATIC_SMEM_BYTES and not opted_in and not _is_handed_on(file, launch.kernel):
            yield file.hit(
                place,
                f"`{launch.kernel}` asks for {size} bytes of shared memory without opting in to "
                f"more than {STATIC_SMEM_BYTES}",
            )


def _is_handed_on(file: CudaFile, kernel: str) -> bool:
    """The kernel is an argument of some call, which may set the attribute for it."""
    name = re.escape(kernel.encode())
    return bool(re.search(rb"[(,&:>]\s*%s\s*(?:<[^;(){}]*>)?\s*[,)]" % name, file.data))
