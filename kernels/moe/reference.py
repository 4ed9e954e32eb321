"""What the layer means, in plain torch and high precision."""

from __future__ import annotations

import torch
from torch.nn.functional import silu


def moe_reference(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """`out[t] = sum_j weights[t, j] * down(silu(gate(x[t])) * up(x[t]))` over experts ids[t, j].

    Args:
        x: (T, H) activations.
        w13: (E, 2 * I, H); an expert's first I rows are its gate, its last I its up projection.
        w2: (E, H, I) down projection.
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
        gate_up = x[tokens].to(dtype) @ w13[expert].to(dtype).t()
        hidden = silu(gate_up[:, :inter]) * gate_up[:, inter:]
        rows = hidden @ w2[expert].to(dtype).t()
        out.index_add_(0, tokens, rows * weights[tokens, choices, None].to(dtype))
    return out
