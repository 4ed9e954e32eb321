"""How far an output lies from its reference, so that NaN and unwritten memory never pass."""

from __future__ import annotations

import math

import torch

# Relative L2 bounds of one rounding to the output type after float32 accumulation, with room for
# accumulation order: twice the rounding error of bfloat16 and float16, a few ulp of float32.
REL_L2_BOUND = {torch.bfloat16: 5e-3, torch.float16: 1e-3, torch.float32: 1e-5}

# Of the same where products of e4m3 are a tensor core's: it keeps 13 or 14 bits of a sum, hidden
# values come out 1.2e-4 off, and those near a tie round to the other step, 0.09 of them away:
# sqrt(1.2e-4 * 0.09) = 3.3e-3, beside 2.4e-3 of two roundings to bfloat16; and twice that.
E4M3_PRODUCT_REL_L2_BOUND = 1e-2

# Of a layer whose weights and activations are rounded to e4m3, against the same layer unrounded.
# One rounding is off by 2.6e-2 (rms over a binade), x and w13 reach gate and up, the hidden rows
# and w2 add theirs: sqrt(2 * 2 + 2) * 2.6e-2 = 6.4e-2, with room for small sizes.
E4M3_REL_L2_BOUND = 0.1


def rel_l2(out: torch.Tensor, reference: torch.Tensor) -> float:
    """Compute |out - reference| / |reference| in float64; NaN in `out` gives NaN.

    A zero reference gives 0 for a zero output and infinity for any other.
    """
    if out.shape != reference.shape:
        raise ValueError(
            f"output has shape {tuple(out.shape)}, its reference {tuple(reference.shape)}"
        )
    if out.numel() == 0:
        return 0.0
    truth = reference.double()
    error = torch.linalg.vector_norm(out.double() - truth).item()
    scale = torch.linalg.vector_norm(truth).item()
    if scale == 0.0:
        return 0.0 if error == 0.0 else (math.nan if math.isnan(error) else math.inf)
    return error / scale


def within(error: float, bound: float) -> bool:
    """Say whether an error is a number and at most `bound`."""
    return math.isfinite(error) and error <= bound


def poisoned(*shape: int, dtype: torch.dtype, device: str | torch.device) -> torch.Tensor:
    """Allocate an output full of NaN, so that an element nobody wrote is seen."""
    return torch.full(shape, math.nan, dtype=dtype, device=device)
