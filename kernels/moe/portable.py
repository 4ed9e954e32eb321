"""Launches of the portable path: layer 0, layer 1 and the combination, of either dtype."""

from __future__ import annotations

import torch
import triton

from kernels.backend import BACKEND, Backend, multiplies_e4m3
from kernels.e4m3 import operand
from kernels.moe import grouped_gemm, scaled_gemm
from kernels.moe.configs import PortableConfig
from kernels.moe.scaled import BLOCK, BlockScaled, GroupScaled, Weights
from kernels.moe.workspace import Workspace


def run(
    x: torch.Tensor,
    w13: Weights,
    w2: Weights,
    weights: torch.Tensor,
    workspace: Workspace,
    out: torch.Tensor,
    combine: str,
) -> None:
    """The layer on a finished table; the operands are those of `layer.moe`, checked."""
    if workspace.x is not None:
        quantise(x, workspace.x)
    gate_up(x, w13, workspace)
    if combine == "atomic":
        total = torch.zeros(out.shape, dtype=torch.float32, device=out.device)
        down(w2, weights, workspace, total, atomic=True)
        out.copy_(total)
    else:
        down(w2, weights, workspace, workspace.y, atomic=False)
        combine_rows(weights, workspace, out)


def quantise(x: torch.Tensor, into: GroupScaled) -> None:
    """Round (T, H) activations to e4m3 with a scale for each 128 columns; one launch."""
    tokens, hidden = x.shape
    native = multiplies_e4m3(x.device)
    rows = 16
    grid = (triton.cdiv(tokens, rows), triton.cdiv(hidden, BLOCK))
    scaled_gemm.quantise_kernel[grid](
        x, operand(into.values, native=native), into.scales, tokens, hidden, *x.stride(),
        ROWS=rows, NATIVE=native, num_warps=4,
    )  # fmt: skip


def gate_up(x: torch.Tensor, w13: Weights, workspace: Workspace, *, activate: bool = True) -> None:
    """Layer 0 into `workspace.h`; without activation into its first rows, 2 * I wide.

    Block-scaled weights multiply `workspace.x`, which `quantise` has made of x.
    """
    config, schedule = workspace.config, workspace.schedule
    assert isinstance(config, PortableConfig)
    hidden, inter = workspace.shape.hidden, workspace.shape.inter
    grid = schedule.tile_capacity * triton.cdiv(inter, config.columns)
    table = (schedule.choice_of_row, schedule.tiles, schedule.totals)
    options = _options(workspace) | {"ACTIVATE": activate}
    if not isinstance(w13, BlockScaled):
        grouped_gemm.gate_up_kernel[(grid,)](
            x, w13, workspace.h, *table, hidden, inter, *x.stride(), *w13.stride(), **options
        )
        return
    assert workspace.x is not None
    native = multiplies_e4m3(x.device)
    h, h_scales = workspace.h, None
    if isinstance(h, GroupScaled):
        h, h_scales = operand(h.values, native=native), h.scales
    scaled_gemm.scaled_gate_up_kernel[(grid,)](
        operand(workspace.x.values, native=native), workspace.x.scales,
        operand(w13.values, native=native), w13.scales, h, h_scales, *table, hidden, inter,
        *w13.values.stride(), *w13.scales.stride(), NATIVE=native, **options,
    )  # fmt: skip


def down(
    w2: Weights, weights: torch.Tensor, workspace: Workspace, y: torch.Tensor, *, atomic: bool
) -> None:
    """Layer 1 into `y`: (rows, H), or with `atomic` the zeroed (T, H) float32 sum."""
    config, schedule, h = workspace.config, workspace.schedule, workspace.h
    assert isinstance(config, PortableConfig)
    hidden, inter = workspace.shape.hidden, workspace.shape.inter
    grid = schedule.tile_capacity * triton.cdiv(hidden, config.columns)
    table = (schedule.choice_of_row, weights, schedule.tiles, schedule.totals)
    options = _options(workspace) | {"ATOMIC": atomic}
    if not isinstance(w2, BlockScaled):
        grouped_gemm.down_kernel[(grid,)](h, w2, y, *table, hidden, inter, *w2.stride(), **options)
        return
    assert isinstance(h, GroupScaled)
    native = multiplies_e4m3(y.device)
    scaled_gemm.scaled_down_kernel[(grid,)](
        operand(h.values, native=native), h.scales,
        operand(w2.values, native=native), w2.scales, y, *table, hidden, inter,
        *w2.values.stride(), *w2.scales.stride(), NATIVE=native, **options,
    )  # fmt: skip


def combine_rows(weights: torch.Tensor, workspace: Workspace, out: torch.Tensor) -> None:
    """Sum `workspace.y` by token into `out`, in the order of the token's choices."""
    tokens, hidden = out.shape
    rows, columns = (8, 256) if BACKEND is Backend.GPU else (16, 64)
    grid = (triton.cdiv(tokens, rows), triton.cdiv(hidden, columns))
    grouped_gemm.combine_kernel[grid](
        workspace.y, out, workspace.schedule.row_of_choice, weights, tokens, hidden,
        TOP_K=workspace.schedule.top_k, TOKENS=rows, COLUMNS=columns, num_warps=4,
    )  # fmt: skip


def _options(workspace: Workspace) -> dict[str, int]:
    config = workspace.config
    assert isinstance(config, PortableConfig)
    return {
        "TOP_K": workspace.schedule.top_k,
        "BM": config.rows,
        "BN": config.columns,
        "BK": config.inner,
        "num_warps": config.warps,
        "num_stages": config.stages,
    }
