"""Whether a call's operands belong together, and which kernel they suit."""

from __future__ import annotations

import torch

from kernels.backend import BACKEND, Backend
from kernels.moe.scaled import BlockScaled, Weights
from kernels.moe.shapes import Shape

# What a bulk tensor copy demands of an address; the gathered rows are copied as many at once.
ALIGNED_BYTES = 16

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def suits_hopper(x: torch.Tensor, w13: Weights, w2: Weights) -> str | None:
    """Why the Hopper kernel cannot take these operands, or None."""
    return lacks_hopper(x.device) or unsuited_tensors(x, w13, w2)


def lacks_hopper(device: torch.device) -> str | None:
    """Why the Hopper kernel cannot run on this device, or None."""
    if BACKEND is not Backend.GPU or device.type != "cuda":
        return "no GPU runs this"
    if torch.version.hip or torch.cuda.get_device_capability(device) != (9, 0):
        return "the device is not sm_90"
    return None


def unsuited_tensors(x: torch.Tensor, w13: Weights, w2: Weights) -> str | None:
    """What the Hopper kernel cannot take in these operands, wherever they lie, or None."""
    if isinstance(w13, BlockScaled) or isinstance(w2, BlockScaled):
        return "block-scaled weights go the portable way"
    if x.dtype not in (torch.bfloat16, torch.float16):
        return f"{x.dtype} is not a 16-bit type"
    if x.shape[1] % 64 or w2.shape[2] % 64:
        return f"hidden {x.shape[1]} or inter {w2.shape[2]} is no multiple of 64"
    if not (x.is_contiguous() and w13.is_contiguous() and w2.is_contiguous()):
        return "an operand is not contiguous"
    if any(each.data_ptr() % ALIGNED_BYTES for each in (x, w13, w2)):
        return f"an operand begins at no multiple of {ALIGNED_BYTES} bytes"
    return None


def check_strides(x: torch.Tensor, w13: Weights, w2: Weights, inner: int) -> None:
    """Raise ValueError for inner strides that the portable kernels' 32-bit products cannot hold.

    They multiply such a stride by up to `inner`, one step; rows and experts go by 64 bits.
    """
    wide = {} if isinstance(w13, BlockScaled) else {"x": x}
    wide |= {
        name: each.values if isinstance(each, BlockScaled) else each
        for name, each in (("w13", w13), ("w2", w2))
    }
    for name, tensor in wide.items():
        stride = tensor.stride(-1)
        if stride * inner >= 1 << 31:
            raise ValueError(
                f"{name} has an inner stride of {stride}, and {inner} of them pass 2^31;"
                f" pass {name}.contiguous()"
            )


def shape_of(
    x: torch.Tensor, w13: Weights, w2: Weights, ids: torch.Tensor, weights: torch.Tensor
) -> Shape:
    """The size of a call. Raises ValueError for operands that do not belong together."""
    got = ", ".join(
        f"{name} {tuple(tensor.shape)}"
        for name, tensor in (("x", x), ("w13", w13), ("w2", w2), ("ids", ids), ("w", weights))
    )
    if x.dim() != 2 or len(w13.shape) != 3 or len(w2.shape) != 3 or ids.dim() != 2:
        raise ValueError(f"expected x (T, H), w13 (E, 2I, H), w2 (E, H, I), ids (T, k); got {got}")
    (tokens, hidden), experts, inter = x.shape, w13.shape[0], w2.shape[2]
    if w13.shape != (experts, 2 * inter, hidden) or w2.shape != (experts, hidden, inter):
        raise ValueError(f"weights do not fit each other or x: {got}")
    if ids.shape[0] != tokens or weights.shape != ids.shape:
        raise ValueError(f"routing does not fit x: {got}")
    _check_dtypes(x, w13, w2)
    if ids.dtype not in (torch.int32, torch.int64) or weights.dtype != torch.float32:
        raise ValueError(f"ids {ids.dtype} must be integers, weights {weights.dtype} float32")
    if len({tensor.device for tensor in (x, w13, w2, ids, weights)}) > 1:
        raise ValueError("operands lie on different devices")
    return Shape(tokens, ids.shape[1], experts, hidden, inter)


def _check_dtypes(x: torch.Tensor, w13: Weights, w2: Weights) -> None:
    scaled = isinstance(w13, BlockScaled)
    if scaled != isinstance(w2, BlockScaled):
        raise ValueError("w13 and w2 must both be block-scaled, or neither")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype of x, {x.dtype}, must be one of {DTYPES}")
    if not scaled and not x.dtype == w13.dtype == w2.dtype:
        raise ValueError(
            f"dtypes x {x.dtype}, w13 {w13.dtype}, w2 {w2.dtype} must be one of {DTYPES};"
            " 8-bit weights come with their scales, as BlockScaled"
        )
