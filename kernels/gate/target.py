"""Compile Triton kernels for a target that is not here, and read what the machine code needs."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from kernels.gate.arrivals import announcements

TARGETS = {"sm_90": GPUTarget("cuda", 90, 32), "gfx942": GPUTarget("hip", "gfx942", 64)}
TOOL_TIMEOUT_S = 120


@dataclass(frozen=True)
class Resources:
    """What one compiled kernel needs, and which instructions it got.

    Attributes:
        registers: per thread at entry.
        spilled: bytes of stack (NVIDIA) or registers (AMD) that did not fit.
        shared_bytes: shared memory of a block.
        matrix: matrix instructions by kind: wgmma, mma_sync, mfma.
        bulk_copies: bulk tensor copies (TMA).
        async_copies: asynchronous copies by threads (cp.async).
        announced: arrivals and releases by one thread for many; see `arrivals`.
        unmet: those among them that no barrier precedes.
    """

    registers: int
    spilled: int
    shared_bytes: int
    matrix: dict[str, int]
    bulk_copies: int
    async_copies: int
    announced: int = 0
    unmet: tuple[str, ...] = ()


class AbsentDevice:
    """A driver that names a target and can launch nothing: enough to compile."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def aim_at(name: str) -> None:
    """Compile from now on for `name`. One target a process: kernels keep what they compiled."""
    driver.set_active(AbsentDevice(TARGETS[name]))


def resources(compiled: Any) -> Resources:
    """Read a compiled kernel's needs from its machine code and assembly."""
    if "amdgcn" in compiled.asm:
        return _of_amd(compiled.asm["amdgcn"], compiled.metadata.shared)
    return _of_nvidia(compiled.asm["cubin"], compiled.asm["ptx"], compiled.metadata.shared)


def _of_nvidia(cubin: bytes, ptx: str, shared_bytes: int) -> Resources:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    handle, name = tempfile.mkstemp(suffix=".cubin")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cubin)
        listing = subprocess.run(
            [str(tool), "--dump-resource-usage", name],
            capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True,
        ).stdout  # fmt: skip
    finally:
        Path(name).unlink()
    found = re.search(r"REG:(\d+) STACK:(\d+)", listing)
    if not found:
        raise RuntimeError(f"cuobjdump told no resources: {listing.strip() or 'nothing'}")
    announced, unmet = announcements(ptx)
    return Resources(
        registers=int(found[1]),
        spilled=int(found[2]),
        shared_bytes=shared_bytes,
        matrix=_counted(ptx, {"wgmma": r"wgmma\.mma_async", "mma_sync": r"\bmma\.sync"}),
        bulk_copies=len(re.findall(r"cp\.async\.bulk\.tensor", ptx)),
        async_copies=len(re.findall(r"cp\.async\.c[ag]\.", ptx)),
        announced=announced,
        unmet=tuple(unmet),
    )


def _of_amd(assembly: str, shared_bytes: int) -> Resources:
    def told(name: str) -> int:
        found = re.search(rf"\.{name}:\s*(\d+)", assembly)
        if not found:
            raise RuntimeError(f"the assembly has no .{name}")
        return int(found[1])

    return Resources(
        registers=told("vgpr_count"),
        spilled=told("vgpr_spill_count") + told("sgpr_spill_count"),
        shared_bytes=shared_bytes,
        matrix=_counted(assembly, {"mfma": r"\bv_mfma_"}),
        bulk_copies=0,
        async_copies=0,
    )


def _counted(text: str, patterns: dict[str, str]) -> dict[str, int]:
    counts = {name: len(re.findall(pattern, text)) for name, pattern in patterns.items()}
    return {name: count for name, count in counts.items() if count}
