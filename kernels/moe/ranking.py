"""Reading a call's top-k ids, and ranking them, inside the kernels that build its table."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_ids(ids_ptr, at, choices, experts):
    """Ids of the choices `at`, int32; of wider ones those outside [0, experts) become -1."""
    ids = tl.load(ids_ptr + at, mask=at < choices, other=-1)
    if ids.dtype == tl.int64:
        # Before the cast, which would make an expert's number of 2^32 + 1.
        ids = tl.where((ids >= 0) & (ids < experts), ids, -1)
    return ids.to(tl.int32)


@triton.jit
def earlier_equals(others, other, ids, lane):
    """How many of `others`, at positions `other`, are equal to each of `ids` and before it.

    Summed over the first axis, which is the one that a thread holds many values of.
    """
    same = (others[:, None] == ids[None, :]) & (other[:, None] < lane[None, :])
    return tl.sum(same.to(tl.int32), axis=0)
