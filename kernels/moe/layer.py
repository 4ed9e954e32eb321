"""The fused layer as a caller uses it: operands checked, variant chosen, workspace reserved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import triton

from kernels.backend import BACKEND, Backend
from kernels.moe import grouped_gemm
from kernels.moe.configs import Config, HopperConfig, PortableConfig, choose
from kernels.moe.plan import Work, chunk_edges
from kernels.moe.schedule import Schedule, allocate, build
from kernels.moe.shapes import Shape

if BACKEND is not Backend.INTERPRETER:
    # Gluon has no interpreter; on a CPU only the portable path exists.
    from kernels.moe import hopper_launch

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
COMBINE_MODES = ("ordered", "atomic")


@dataclass(frozen=True)
class Workspace:
    """Everything a call of one size and variant writes beside its output; reusable, not shareable.

    Two calls that may run at the same time, on two streams, need one each.
    """

    shape: Shape
    config: Config
    schedule: Schedule
    h: torch.Tensor
    y: torch.Tensor


def suits_hopper(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> str | None:
    """Why the Hopper kernel cannot take these operands, or None."""
    if BACKEND is not Backend.GPU or x.device.type != "cuda":
        return "no GPU runs this"
    if torch.version.hip or torch.cuda.get_device_capability(x.device) != (9, 0):
        return "the device is not sm_90"
    if x.dtype not in (torch.bfloat16, torch.float16):
        return f"{x.dtype} is not a 16-bit type"
    if x.shape[1] % 64 or w2.shape[2] % 64:
        return f"hidden {x.shape[1]} or inter {w2.shape[2]} is no multiple of 64"
    if not (x.is_contiguous() and w13.is_contiguous() and w2.is_contiguous()):
        return "an operand is not contiguous"
    return None


def reserve(
    shape: Shape, config: Config, dtype: torch.dtype, device: torch.device | str
) -> Workspace:
    """Allocate a workspace. Raises ValueError for a Hopper variant that does not fit the device."""
    work = None
    if isinstance(config, HopperConfig):
        problem = hopper_tile(config).problem()
        if problem:
            raise ValueError(f"{config} cannot run: {problem}")
        columns = triton.cdiv(shape.hidden, hopper_launch.COLUMNS_2)
        work = Work(
            columns1=triton.cdiv(shape.inter, hopper_launch.COLUMNS_1),
            width1=hopper_launch.COLUMNS_1,
            columns2=columns,
            width2=hopper_launch.COLUMNS_2,
            edges=config.chunks or chunk_edges(columns),
            lead=config.lead,
            group=config.group,
        )
    schedule = allocate(shape.tokens, shape.top_k, shape.experts, config.cut, work, device)
    rows = schedule.choices
    return Workspace(
        shape,
        config,
        schedule,
        h=torch.empty(rows, shape.inter, dtype=dtype, device=device),
        y=torch.empty(rows, shape.hidden, dtype=dtype, device=device),
    )


def with_chunks(config: HopperConfig, chunks: tuple[int, int, int]) -> HopperConfig:
    """The same variant with other chunk edges."""
    return replace(config, chunks=chunks)


def with_hidden(workspace: Workspace, h: torch.Tensor) -> Workspace:
    """The same workspace writing layer 0 to `h`."""
    return replace(workspace, h=h)


def hopper_tile(config: HopperConfig) -> hopper_launch.HopperTile:
    return hopper_launch.HopperTile(
        config.body, config.tail, config.stages, config.producer_registers
    )


def moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
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
        x: (T, H) bfloat16, float16 or float32; any strides on the portable path.
        w13, w2: (E, 2 * I, H) and (E, H, I) of the same dtype.
        ids: (T, k) int32 or int64; ids outside [0, E) are dropped.
        weights: (T, k) float32.
        config: variant to run; chosen by size when not given.
        workspace: from `reserve` for this size and variant; allocated when not given.
        out: (T, H) contiguous, of x's dtype; allocated when not given.
        combine: "ordered" sums a token's rows in a fixed order and gives the same bits on each
            run; "atomic" (portable path only) adds them in float32 in whatever order they finish.

    Returns:
        `out`. No host synchronisation, so the call may be captured in a CUDA graph.

    Raises:
        ValueError: for operands that do not belong together, or that the given variant cannot take.
    """
    shape = _shape_of(x, w13, w2, ids, weights)
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
    if workspace is None:
        workspace = reserve(shape, config, x.dtype, x.device)
    elif (workspace.shape, workspace.config) != (shape, config):
        raise ValueError(
            f"the workspace is for {workspace.shape} with {workspace.config},"
            f" the call is {shape} with {config}"
        )
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    elif out.shape != x.shape or out.dtype != x.dtype or not out.is_contiguous():
        raise ValueError(f"`out` must be contiguous {tuple(x.shape)} {x.dtype}")
    if not shape.tokens:
        return out

    build(workspace.schedule, ids.contiguous())
    if isinstance(config, HopperConfig):
        tile = hopper_tile(config)
        hopper_launch.launch(
            tile,
            hopper_launch.descriptors(w13, w2, tile),
            workspace.schedule,
            x,
            workspace.h,
            workspace.y,
            out,
            weights.contiguous(),
            torch.cuda.get_device_properties(x.device).multi_processor_count,
        )
    else:
        _run_portable(x, w13, w2, weights.contiguous(), workspace, out, combine)
    return out


def gate_up(
    x: torch.Tensor, w13: torch.Tensor, workspace: Workspace, *, activate: bool = True
) -> None:
    """Portable layer 0 into `workspace.h`; without activation into its first rows, 2 * I wide."""
    config, schedule = workspace.config, workspace.schedule
    assert isinstance(config, PortableConfig)
    inter = workspace.shape.inter
    grid = schedule.tile_capacity * triton.cdiv(inter, config.columns)
    grouped_gemm.gate_up_kernel[(grid,)](
        x, w13, workspace.h, schedule.choice_of_row, schedule.tiles, schedule.totals,
        workspace.shape.hidden, inter, *x.stride(), *w13.stride(),
        TOP_K=schedule.top_k, BM=config.rows, BN=config.columns, BK=config.inner,
        ACTIVATE=activate, num_warps=config.warps, num_stages=config.stages,
    )  # fmt: skip


def down(
    w2: torch.Tensor, weights: torch.Tensor, workspace: Workspace, y: torch.Tensor, *, atomic: bool
) -> None:
    """Portable layer 1 into `y`: (rows, H), or with `atomic` the zeroed (T, H) float32 sum."""
    config, schedule = workspace.config, workspace.schedule
    assert isinstance(config, PortableConfig)
    hidden = workspace.shape.hidden
    grid = schedule.tile_capacity * triton.cdiv(hidden, config.columns)
    grouped_gemm.down_kernel[(grid,)](
        workspace.h, w2, y, schedule.choice_of_row, weights, schedule.tiles, schedule.totals,
        hidden, workspace.shape.inter, *w2.stride(),
        TOP_K=schedule.top_k, BM=config.rows, BN=config.columns, BK=config.inner,
        ATOMIC=atomic, num_warps=config.warps, num_stages=config.stages,
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


def _run_portable(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    workspace: Workspace,
    out: torch.Tensor,
    combine: str,
) -> None:
    gate_up(x, w13, workspace)
    if combine == "atomic":
        total = torch.zeros(out.shape, dtype=torch.float32, device=out.device)
        down(w2, weights, workspace, total, atomic=True)
        out.copy_(total)
    else:
        down(w2, weights, workspace, workspace.y, atomic=False)
        combine_rows(weights, workspace, out)


def chosen_config(
    shape: Shape, x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, combine: str = "ordered"
) -> Config:
    """The variant that `moe` runs for these operands when none is given."""
    suited = combine == "ordered" and suits_hopper(x, w13, w2) is None
    return choose(shape, x.dtype, x.device, hopper=suited)


def _shape_of(
    x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor
) -> Shape:
    got = ", ".join(
        f"{name} {tuple(tensor.shape)}"
        for name, tensor in (("x", x), ("w13", w13), ("w2", w2), ("ids", ids), ("w", weights))
    )
    if x.dim() != 2 or w13.dim() != 3 or w2.dim() != 3 or ids.dim() != 2:
        raise ValueError(f"expected x (T, H), w13 (E, 2I, H), w2 (E, H, I), ids (T, k); got {got}")
    (tokens, hidden), experts, inter = x.shape, w13.shape[0], w2.shape[2]
    if w13.shape != (experts, 2 * inter, hidden) or w2.shape != (experts, hidden, inter):
        raise ValueError(f"weights do not fit each other or x: {got}")
    if ids.shape[0] != tokens or weights.shape != ids.shape:
        raise ValueError(f"routing does not fit x: {got}")
    if x.dtype not in DTYPES or not x.dtype == w13.dtype == w2.dtype:
        raise ValueError(
            f"dtypes x {x.dtype}, w13 {w13.dtype}, w2 {w2.dtype} must be one of {DTYPES}"
        )
    if ids.dtype not in (torch.int32, torch.int64) or weights.dtype != torch.float32:
        raise ValueError(f"ids {ids.dtype} must be integers, weights {weights.dtype} float32")
    if len({tensor.device for tensor in (x, w13, w2, ids, weights)}) > 1:
        raise ValueError("operands lie on different devices")
    return Shape(tokens, ids.shape[1], experts, hidden, inter)
