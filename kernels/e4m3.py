"""The 8-bit float e4m3 (OCP, without infinities) inside kernels, with or without hardware for it.

Where a GPU multiplies e4m3 (`backend.multiplies_e4m3`) tensors keep that type, and every function
here is the plain operation (`NATIVE`). Elsewhere tensors are passed as uint8 and these functions
work on codes: on sm_80, on AMD (whose gfx942 multiplies another 8-bit float), and in the Triton 3.6
interpreter, which rounds ties away from even, turns NaN into 384 and the code of NaN into 480.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.interpreted import dot

GROUP = tl.constexpr(128)
_LARGEST = tl.constexpr(torch.finfo(torch.float8_e4m3fn).max)
_SMALLEST_SCALE = tl.constexpr(torch.finfo(torch.float32).tiny)
_SMALLEST_NORMAL = tl.constexpr(2.0**-6)


def operand(values: torch.Tensor, *, native: bool) -> torch.Tensor:
    """An e4m3 tensor as kernels take it: as it is, or its codes as uint8."""
    return values if native else values.view(torch.uint8)


@triton.jit
def encode(x):
    """float32 to the uint8 code, ties to even; finite values past 448 become 448, NaN stays."""
    bits = x.to(tl.uint32, bitcast=True)
    sign = (bits >> 24) & 0x80
    bits = bits & 0x7FFFFFFF
    magnitude = bits.to(tl.float32, bitcast=True)
    # 960 = (127 - 7) << 3: from float32's exponent bias to that of e4m3, above 3 bits of mantissa.
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - 960
    # Added to 2^14, whose last bit is 2^-9, a value is rounded to whole subnormal steps.
    small = (magnitude + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.where(magnitude < _SMALLEST_NORMAL, small, normal)
    code = tl.minimum(code, 0x7E)
    code = tl.where(bits > 0x7F800000, 0x7F, code)
    return (sign | code).to(tl.uint8)


@triton.jit
def decode(code):
    """A uint8 code to float16, which holds every e4m3 value exactly."""
    half = ((code & 0x80).to(tl.uint16) << 8) | ((code & 0x7F).to(tl.uint16) << 7)
    value = half.to(tl.float16, bitcast=True) * 256.0  # 2^(15 - 7): the biases' difference
    return tl.where((code & 0x7F) == 0x7F, float("nan"), value).to(tl.float16)


@triton.jit
def product(a, b, NATIVE: tl.constexpr):
    """`a @ b` of e4m3 (M, K) and (K, N) as float32, each call with a fresh accumulator.

    sm_90 keeps about 14 bits while it adds inside one product; the caller's float32 sum over short
    products is what restores precision.
    """
    if NATIVE:
        return tl.dot(a, b)
    else:  # noqa: RET505  Triton compiles both without it
        return dot(decode(a), decode(b), tl.zeros((a.shape[0], b.shape[1]), tl.float32))


@triton.jit
def quantise(x, NATIVE: tl.constexpr):
    """float32 (M, 128) to e4m3 and one scale a row: `x ~ e4m3 * scale[:, None]`.

    The scale is the largest magnitude / 448, or 1 where that is no normal number, an all-zero row
    included. NaN has no say in it and stays NaN; infinity makes scale and row non-finite.
    """
    largest = tl.max(tl.where(x == x, tl.abs(x), 0.0), axis=1)
    scale = tl.div_rn(largest, _LARGEST)
    scale = tl.where(scale >= _SMALLEST_SCALE, scale, 1.0)
    quotient = tl.div_rn(x, scale[:, None])
    if NATIVE:
        values = quotient.to(tl.float8e4nv)
    else:
        values = encode(quotient)
    return values, scale
