"""What the layer means, in plain torch and high precision."""

from __future__ import annotations

import torch
from torch.nn.functional import silu

from kernels.moe.scaled import BlockScaled, Weights, quantise_groups


def moe_reference(
    x: torch.Tensor,
    w13: Weights,
    w2: Weights,
    ids: torch.Tensor,
    weights: torch.Tensor,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """`out[t] = sum_j weights[t, j] * down(silu(gate(x[t])) * up(x[t]))` over experts ids[t, j].

    With block-scaled weights x[t], and the product that goes into `down`, are rounded to e4m3 and
    back, one float32 scale for each 128 columns; everything else stays in `dtype`.

    Args:
        x: (T, H) activations.
        w13: (E, 2 * I, H), or `BlockScaled`; an expert's first I rows are its gate, its last I its
            up projection.
        w2: (E, H, I) down projection, `BlockScaled` where w13 is.
        ids: (T, k) integers; a choice outside [0, E) contributes nothing.
        weights: (T, k) router weights.
        dtype: of the computation and of the result.

    Returns:
        (T, H) in `dtype`; a token without any valid choice is zero.
    """
    out = torch.zeros(x.shape, dtype=dtype, device=x.device)
    inter = w2.shape[2]
    for expert in range(w13.shape[0]):
        tokens, choices = torch.where(ids == expert)
        if not len(tokens):
            continue
        gate_up = _through(x[tokens], w13, dtype) @ _expert(w13, expert, dtype).t()
        hidden = silu(gate_up[:, :inter]) * gate_up[:, inter:]
        rows = _through(hidden, w2, dtype) @ _expert(w2, expert, dtype).t()
        out.index_add_(0, tokens, rows * weights[tokens, choices, None].to(dtype))
    return out


def _through(rows: torch.Tensor, weights: Weights, dtype: torch.dtype) -> torch.Tensor:
    """Rows as the weights' products see them."""
    if isinstance(weights, BlockScaled):
        return quantise_groups(rows).dequantised(dtype)
    return rows.to(dtype)


def _expert(weights: Weights, number: int, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(weights, BlockScaled):
        return weights.expert(number, dtype)
    return weights[number].to(dtype)
