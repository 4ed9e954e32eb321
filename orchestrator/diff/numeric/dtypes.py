"""Element types of tensors: how their bits become floats, and what difference is usual for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = Literal["float", "integer", "opaque"]


@dataclass(frozen=True)
class Dtype:
    """One element type.

    `storage` is the numpy dtype of the bits as they lie in the file; `parts` is 2 for complex
    numbers, whose real and imaginary parts are compared as neighbours. `sign_bit` is 0 for a
    format without a sign. `rel` and `abs` are the tolerance where no rule names one: for floats
    those of `torch.testing.assert_close`, for 8-bit floats one step of the format, else exact.
    """

    name: str
    storage: np.dtype[Any]
    kind: Kind
    rel: float = 0.0
    abs: float = 0.0
    parts: int = 1
    sign_bit: int = 0
    has_ulp: bool = True
    """False for numbers that come from two formats."""
    tiny: float = 0.0
    """The smallest normal number: what a relative difference is never taken against less than."""

    @property
    def item_bytes(self) -> int:
        return int(self.storage.itemsize) * self.parts

    def floats(self, bits: Array) -> Array:
        """The values as float32 where that is exact, else as float64."""
        return _converter(self.name)(bits)

    def bits(self, elements: Array) -> Array:
        """The elements as unsigned integers of their size, in the machine's byte order."""
        native = elements.astype(elements.dtype.newbyteorder("="), copy=False)
        return native.view(f"u{native.dtype.itemsize}")


def _float(name: str, storage: str, rel: float, absolute: float, parts: int = 1) -> Dtype:
    kind = np.dtype(getattr(ml_dtypes, name, storage))
    facts = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    sign = 0 if name == "float8_e8m0fnu" else 1 << (8 * kind.itemsize - 1)
    size = f"u{kind.itemsize}" if hasattr(ml_dtypes, name) else storage
    tiny = float(facts.smallest_normal)
    return Dtype(name, np.dtype(size), "float", rel, absolute, parts, sign, tiny=tiny)


_FLOATS = (
    _float("float16", "f2", 1e-3, 1e-5),
    _float("bfloat16", "u2", 1.6e-2, 1e-5),
    _float("float32", "f4", 1.3e-6, 1e-5),
    _float("float64", "f8", 1e-7, 1e-7),
    _float("float8_e4m3fn", "u1", 2.0**-3, 2.0**-9),
    _float("float8_e4m3fnuz", "u1", 2.0**-3, 2.0**-10),
    _float("float8_e5m2", "u1", 2.0**-2, 2.0**-16),
    _float("float8_e5m2fnuz", "u1", 2.0**-2, 2.0**-17),
    _float("float8_e8m0fnu", "u1", 0.0, 0.0),
)
BY_NAME = {dtype.name: dtype for dtype in _FLOATS}
BY_NAME["complex64"] = Dtype(
    "complex64", np.dtype("f4"), "float", 1.3e-6, 1e-5, 2, 1 << 31, tiny=BY_NAME["float32"].tiny
)
BY_NAME["complex128"] = Dtype(
    "complex128", np.dtype("f8"), "float", 1e-7, 1e-7, 2, 1 << 63, tiny=BY_NAME["float64"].tiny
)


def of_numpy(dtype: np.dtype[Any]) -> Dtype:
    """The element type of a numpy array, in the byte order it has in the file."""
    if dtype.name in BY_NAME:
        known = BY_NAME[dtype.name]
        storage = np.dtype(f"f{known.storage.itemsize}").newbyteorder(dtype.byteorder)
        return Dtype(**{**vars(known), "storage": storage})
    if dtype.kind in "iu":
        return Dtype(dtype.name, dtype, "integer")
    if dtype.kind == "b":
        return Dtype("bool", np.dtype("u1"), "integer")
    return Dtype(str(dtype), np.dtype(f"V{dtype.itemsize}"), "opaque")


@lru_cache(maxsize=32)
def _converter(name: str) -> Callable[[Array], Array]:
    if name == "bfloat16":
        return _from_bfloat16
    if hasattr(ml_dtypes, name):
        with np.errstate(invalid="ignore"):
            # numpy converts 8-bit floats one by one; a table of all 256 is five times as fast.
            table = np.arange(256, dtype="u1").view(getattr(ml_dtypes, name)).astype("f4")
        return lambda bits: np.take(table, bits)
    if name in ("float16", "float32", "complex64"):
        return lambda bits: bits.astype("f4", copy=False)
    return lambda bits: bits.astype("f8", copy=False)


def _from_bfloat16(bits: Array) -> Array:
    wide = bits.astype("u4")
    np.left_shift(wide, 16, out=wide)
    return wide.view("f4")
