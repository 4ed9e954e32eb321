"""The operators as a caller uses them: shapes checked, backend chosen, output allocated."""

from __future__ import annotations

import torch

from kernels.backend import BACKEND, Backend

if BACKEND is Backend.MODEL:
    from kernels.epilogue import torch_model as launcher
else:
    from kernels.epilogue import triton_kernels as launcher

GEMM_BLOCK = (64, 64, 32)
RELU_BLOCK = 1024


def gelu_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    scale: float,
    *,
    out: torch.Tensor | None = None,
    block: tuple[int, int, int] = GEMM_BLOCK,
) -> torch.Tensor:
    """`gelu(x @ w + b) * scale` in one kernel, exact (erf) GELU, float32 accumulation.

    x (M, K), w (K, N), b (N,), one floating dtype, any strides. Returns (M, N) of that dtype.
    Raises ValueError for shapes, dtypes or devices that do not belong together.
    """
    if x.dim() != 2 or w.dim() != 2 or b.dim() != 1:
        raise ValueError(f"expected x (M, K), w (K, N), b (N,); got {_shapes(x=x, w=w, b=b)}")
    if x.shape[1] != w.shape[0] or w.shape[1] != b.shape[0]:
        raise ValueError(f"inner sizes differ: {_shapes(x=x, w=w, b=b)}")
    _require_alike(x=x, w=w, b=b)
    if out is None:
        out = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    elif out.shape != (x.shape[0], w.shape[1]):
        raise ValueError(f"`out` does not fit: {_shapes(x=x, w=w, out=out)}")
    launcher.launch_gelu_linear(x, w, b, scale, out, block)
    return out


def add_relu(
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    block: int = RELU_BLOCK,
) -> torch.Tensor:
    """`relu(x + y)` in one kernel; equal shapes, one dtype, contiguous. Raises ValueError."""
    _require_alike(x=x, y=y)
    if out is None:
        out = torch.empty_like(x)
    if not x.shape == y.shape == out.shape:
        raise ValueError(f"shapes differ: {_shapes(x=x, y=y, out=out)}")
    for name, tensor in (("x", x), ("y", y), ("out", out)):
        if not tensor.is_contiguous():
            raise ValueError(f"`{name}` is not contiguous; pass {name}.contiguous()")
    launcher.launch_add_relu(x, y, out, block)
    return out


def _require_alike(**tensors: torch.Tensor) -> None:
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        raise ValueError(f"dtypes differ: { ({n: t.dtype for n, t in tensors.items()}) }")
    if len({tensor.device for tensor in tensors.values()}) > 1:
        raise ValueError(f"devices differ: { ({n: str(t.device) for n, t in tensors.items()}) }")


def _shapes(**tensors: torch.Tensor) -> str:
    return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
