"""The fused layer as a caller uses it: operands checked, variant chosen, workspace reserved."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from kernels.backend import BACKEND, Backend
from kernels.moe import portable
from kernels.moe.configs import Config, HopperConfig, choose
from kernels.moe.operands import check_strides, shape_of, suits_hopper
from kernels.moe.scaled import BlockScaled, Weights
from kernels.moe.schedule import build
from kernels.moe.shapes import Shape
from kernels.moe.workspace import Workspace, hopper_tile, reserve

if BACKEND is not Backend.INTERPRETER:
    # Gluon has no interpreter; on a CPU only the portable path exists.
    from kernels.moe.hopper import launch as hopper_launch

COMBINE_MODES = ("ordered", "atomic")


def moe(
    x: torch.Tensor,
    w13: Weights,
    w2: Weights,
    ids: torch.Tensor,
    weights: torch.Tensor,
    *,
    config: Config | None = None,
    workspace: Workspace | None = None,
    out: torch.Tensor | None = None,
    combine: str = "ordered",
) -> torch.Tensor:
    """Run the layer; see `reference.moe_reference` for its meaning and the operands' shapes.

    Args:
        x: (T, H) bfloat16, float16 or float32; any strides on the portable path, as for the
            weights, but for inner ones that pass 2^31 in a step of K: none below 2^24 does.
        w13, w2: (E, 2 * I, H) and (E, H, I) of the same dtype, or both `BlockScaled`: then x and
            the hidden rows are rounded to e4m3 too, one scale for each 128 columns of a row.
        ids: (T, k) int32 or int64; ids outside [0, E) are dropped.
        weights: (T, k) float32.
        config: variant to run; chosen by size when not given.
        workspace: from `reserve` for this size and variant; allocated when not given.
        out: (T, H) contiguous, of x's dtype; allocated when not given.
        combine: "ordered" sums a token's rows in a fixed order and gives the same bits on each
            run; "atomic" (portable path only) adds them in float32 in whatever order they finish.

    Returns:
        `out`. No host synchronisation, so the call may be captured in a CUDA graph, once one like
        it has run: the first compiles its kernels. It runs on the current stream of the operands'
        device, whichever device is current.

    Raises:
        ValueError: for operands that do not belong together, or that the given variant cannot take.
    """
    shape = shape_of(x, w13, w2, ids, weights)
    scaled = isinstance(w13, BlockScaled)
    if combine not in COMBINE_MODES:
        raise ValueError(f"combine `{combine}` is not one of {', '.join(COMBINE_MODES)}")
    if config is None:
        config = workspace.config if workspace else chosen_config(shape, x, w13, w2, combine)
    if isinstance(config, HopperConfig):
        unsuited = suits_hopper(x, w13, w2)
        if combine == "atomic":
            unsuited = "it combines in order only"
        if unsuited:
            raise ValueError(f"the Hopper kernel cannot run this: {unsuited}")
    else:
        check_strides(x, w13, w2, config.inner)
    if workspace is None:
        workspace = reserve(shape, config, x.dtype, x.device, scaled=scaled)
    else:
        _check_workspace(workspace, shape, config, x, scaled=scaled)
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    elif (out.shape, out.dtype, out.device) != (x.shape, x.dtype, x.device):
        raise ValueError(f"`out` must be {tuple(x.shape)} {x.dtype} on {x.device}")
    elif not out.is_contiguous():
        raise ValueError("`out` must be contiguous")
    if not ids.numel():
        return out.zero_()
    with on_device(x.device):
        _run(x, w13, w2, ids.contiguous(), weights.contiguous(), workspace, out, combine)
    return out


def _check_workspace(
    workspace: Workspace, shape: Shape, config: Config, x: torch.Tensor, *, scaled: bool
) -> None:
    held = (workspace.shape, workspace.config, workspace.scaled)
    if held != (shape, config, scaled):
        raise ValueError(
            f"the workspace is for {workspace.shape} with {workspace.config}"
            f" and {'block-scaled' if workspace.scaled else 'plain'} weights, the call is {shape}"
            f" with {config} and {'block-scaled' if scaled else 'plain'} weights"
        )
    rows = workspace.y
    if (rows.dtype, rows.device) != (x.dtype, x.device):
        raise ValueError(
            f"the workspace is for {rows.dtype} on {rows.device}, x is {x.dtype} on {x.device}"
        )


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make `device` the current one, on which Triton launches, where another one is."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)


def _run(
    x: torch.Tensor,
    w13: Weights,
    w2: Weights,
    ids: torch.Tensor,
    weights: torch.Tensor,
    workspace: Workspace,
    out: torch.Tensor,
    combine: str,
) -> None:
    build(workspace.schedule, ids)
    if isinstance(workspace.config, HopperConfig):
        tile = hopper_tile(workspace.config)
        hopper_launch.launch(
            tile,
            hopper_launch.descriptors(w13, w2, tile),
            workspace.schedule,
            x,
            workspace.h,
            workspace.y,
            out,
            weights,
            torch.cuda.get_device_properties(x.device).multi_processor_count,
        )
    else:
        portable.run(x, w13, w2, weights, workspace, out, combine)


def chosen_config(
    shape: Shape, x: torch.Tensor, w13: Weights, w2: Weights, combine: str = "ordered"
) -> Config:
    """The variant that `moe` runs for these operands when none is given."""
    suited = combine == "ordered" and suits_hopper(x, w13, w2) is None
    return choose(shape, w13.dtype, x.device, hopper=suited)
