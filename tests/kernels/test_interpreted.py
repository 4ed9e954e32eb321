from __future__ import annotations

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton has no build for this platform")
tl = pytest.importorskip("triton.language")

from kernels.backend import BACKEND  # noqa: E402
from kernels.interpreted import dot, narrow  # noqa: E402

DEVICE = BACKEND.device


@triton.jit
def narrowing_kernel(x_ptr, out_ptr, block: tl.constexpr):
    lanes = tl.arange(0, block)
    tl.store(out_ptr + lanes, narrow(tl.load(x_ptr + lanes), out_ptr.dtype.element_ty))


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, block: tl.constexpr):
    lanes = tl.arange(0, block)
    at = lanes[:, None] * block + lanes[None, :]
    acc = tl.full((block, block), 1.0, tl.float32)
    tl.store(out_ptr + at, dot(tl.load(a_ptr + at), tl.load(b_ptr + at), acc))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrowing_rounds_as_torch_does(dtype: torch.dtype) -> None:
    halfway = [1.0 + 2**-8, 1.0 + 3 * 2**-8, -1.0 - 2**-8, 3.4e38, -3.4e38]
    special = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1e-40]
    x = torch.tensor(halfway + special + torch.randn(5).tolist(), device=DEVICE)
    out = torch.empty(16, dtype=dtype, device=DEVICE)

    narrowing_kernel[(1,)](x, out, block=16)

    torch.testing.assert_close(out, x.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_dot_multiplies_values_not_bit_patterns(dtype: torch.dtype) -> None:
    a = torch.randn(32, 32, device=DEVICE).to(dtype)
    b = torch.randn(32, 32, device=DEVICE).to(dtype)
    out = torch.empty(32, 32, device=DEVICE)

    dot_kernel[(1,)](a, b, out, block=32)

    torch.testing.assert_close(out.double(), 1.0 + a.double() @ b.double(), rtol=1e-5, atol=1e-5)
