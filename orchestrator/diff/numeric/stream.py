"""Tensors as they lie in files, read piece by piece and compared.

Plain reads into two buffers, not a memory map: as fast, and the memory is that of the buffers on
every system. Pages of a map count as the process's own until the system takes them back, and a
file that gets shorter meanwhile would end the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from orchestrator.diff.numeric.demand import Demand
from orchestrator.diff.numeric.dtypes import BY_NAME, Array, Dtype
from orchestrator.diff.numeric.tensor import TensorDiff
from orchestrator.diff.refusal import Unreadable
from orchestrator.spec.compare import CompareRule


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: `file` stands at its first element when it is read.

    `transposed` tensors lie with their first axis innermost (Fortran order).
    """

    file: IO[bytes]
    dtype: Dtype
    shape: tuple[int, ...]
    transposed: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def words(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


def compare(a: Stored, b: Stored, rule: CompareRule, most_locations: int) -> TensorDiff:
    """Every distance between two tensors of the same shape.

    Of two element types the values are compared in float64, without ulp.

    Raises:
        Unreadable: a file ends before its tensor does.
    """
    assert a.shape == b.shape, "shapes are compared first"
    shared = a.dtype if a.dtype.name == b.dtype.name else _wide(a.dtype, b.dtype)
    turned = a.transposed and b.transposed and len(a.shape) > 1
    shape = a.shape[::-1] if turned else a.shape
    if shared.parts > 1:
        shape = (*shape, shared.parts)
    found = TensorDiff(shared, shape, Demand.of(rule, shared), most_locations, turned=turned)
    same_order = a.transposed == b.transposed or len(a.shape) < 2
    pieces_a, pieces_b = (_pieces(side, found.piece, in_c_order=not same_order) for side in (a, b))
    for one, two in zip(pieces_a, pieces_b, strict=True):
        if a.dtype.name != b.dtype.name:
            one, two = a.dtype.floats(one).astype("f8"), b.dtype.floats(two).astype("f8")
        found.feed(one, two)
    return found


def _wide(a: Dtype, b: Dtype) -> Dtype:
    """float64, under both names; the tolerance is the wider one of the two."""
    wide = BY_NAME["float64"]
    if "opaque" in (a.kind, b.kind) or a.parts != b.parts:
        raise Unreadable(f"{a.name} and {b.name} have no common numbers")
    return replace(
        wide,
        name=f"{a.name} -> {b.name}",
        rel=max(a.rel, b.rel),
        abs=max(a.abs, b.abs),
        has_ulp=False,
    )


def _pieces(tensor: Stored, piece: int, *, in_c_order: bool) -> Iterator[Array]:
    """The elements in runs of `piece`; complex numbers as their parts."""
    total = tensor.count * tensor.dtype.parts
    if in_c_order and tensor.transposed:
        whole = _read(tensor, total).reshape((*tensor.shape[::-1], tensor.dtype.parts))
        axes = (*range(len(tensor.shape) - 1, -1, -1), len(tensor.shape))
        flat = np.ascontiguousarray(whole.transpose(axes)).reshape(-1)
        for start in range(0, total, piece):
            yield flat[start : start + piece]
        return
    left = total
    while left:
        now = min(left, piece)
        yield _read(tensor, now)
        left -= now


def _read(tensor: Stored, count: int) -> Array:
    elements = np.empty(count, tensor.dtype.storage)
    view = memoryview(elements.view("u1").data)
    done = 0
    while done < len(view):
        got = tensor.file.readinto(view[done:])  # type: ignore[attr-defined]
        if not got:
            raise Unreadable("ends in the middle of a tensor")
        done += got
    return elements
