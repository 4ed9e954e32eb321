"""What GPUs take, by architecture (CUDA C++ Programming Guide, compute capabilities)."""

from __future__ import annotations

import re

from preflight.config import Host

MOST_THREADS = 1024
STATIC_SMEM_BYTES = 48 * 1024
_KIB = 1024
# Shared memory a block may opt into, by compute capability.
_OPTIN_KIB = {
    (7, 0): 96,
    (7, 2): 96,
    (7, 5): 64,
    (8, 0): 163,
    (8, 6): 99,
    (8, 7): 163,
    (8, 9): 99,
    (9, 0): 227,
    (10, 0): 227,
    (10, 3): 227,
    (12, 0): 99,
}
_GFX_LDS_BYTES = 64 * _KIB


def smem_optin_bytes(host: Host) -> int | None:
    """Bytes of shared memory one block can have on a host; None when it is not known."""
    if host.smem_optin is not None:
        return host.smem_optin
    arch = (host.arch or "").lower()
    if arch.startswith("gfx"):
        return _GFX_LDS_BYTES
    match = re.fullmatch(r"(?:sm_?)?(\d+?)[._]?(\d)a?", arch)
    kib = _OPTIN_KIB.get((int(match[1]), int(match[2]))) if match else None
    return kib * _KIB if kib else None
