"""Tensors whose elements lie further apart than 2^31, and whose memory is the few pages touched."""

from __future__ import annotations

import mmap

import torch

# Linux's; Python names it from 3.13 on.
MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)

FAR = 1 << 31
"""Elements; a 32-bit offset that passes it comes out as much too low, so room lies before too."""


def spread(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values with other strides, on a CPU, behind FAR elements of zeros.

    An offset that wraps reads those, so that a fault is a wrong number and no segmentation fault.
    """
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, strides, strict=True))
    # Not reserved: the system counts pages when they are touched, and a read touches none.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    room = mmap.mmap(-1, (FAR + reach + 1) * tensor.itemsize, flags=flags)
    room.madvise(mmap.MADV_NOHUGEPAGE)
    flat = torch.frombuffer(room, dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, strides, FAR).copy_(tensor)
