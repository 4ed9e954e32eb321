"""Device functions that keep the Triton 3.6 interpreter as exact as the compiled kernels.

The interpreter holds bfloat16 values as raw 16-bit integers: it multiplies those integers in
`tl.dot`, and it narrows float32 to bfloat16 by cutting the low bits off. Both give wrong numbers
without an error. On a GPU each function here compiles to the plain operation.
"""

from __future__ import annotations

import triton
import triton.language as tl

INTERPRET = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def dot(a, b, acc):
    """`acc + a @ b` in float32: (M, K) x (K, N) -> (M, N), float32 operands without tf32."""
    if INTERPRET:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc)
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def narrow(x, dtype: tl.constexpr):
    """float32 `x` as `dtype`, rounded to nearest even; NaN and infinity stay what they are."""
    if INTERPRET and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        finite = (bits & 0x7F800000) != 0x7F800000
        to_even = 0x7FFF + ((bits >> 16) & 1)
        bits = tl.where(finite, bits + to_even, bits)
        return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return x.to(dtype)
