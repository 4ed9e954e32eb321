"""What a call of the layer writes beside its output, reserved once for a size and a variant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import triton

from kernels.backend import BACKEND, Backend
from kernels.moe.configs import Config, HopperConfig, PortableConfig
from kernels.moe.plan import Work
from kernels.moe.scaled import BLOCK, GroupScaled, empty_groups
from kernels.moe.schedule import Schedule, allocate
from kernels.moe.shapes import Shape

if BACKEND is not Backend.INTERPRETER:
    # Gluon has no interpreter; on a CPU only the portable path exists.
    from kernels.moe.hopper import launch as hopper_launch


# With 512, the sums of gate and up in 64 columns are all the registers of an SM.
MOST_ROWS = 256


@dataclass(frozen=True)
class Workspace:
    """Everything a call of one size and variant writes beside its output; reusable, not shareable.

    Two calls that may run at the same time, on two streams, need one each.

    Attributes:
        x: (T, H) quantised activations where the weights are block-scaled, else None.
        h: (T * k, I) hidden rows, quantised as well where the weights are block-scaled.
        y: (T * k, H) rows of layer 1.
    """

    shape: Shape
    config: Config
    schedule: Schedule
    x: GroupScaled | None
    h: torch.Tensor | GroupScaled
    y: torch.Tensor

    @property
    def scaled(self) -> bool:
        return self.x is not None

    def poison(self) -> None:
        """Fill every row with NaN, so that one nobody writes is seen in the output."""
        for rows in (self.x, self.h, self.y):
            if isinstance(rows, GroupScaled):
                rows.poison()
            elif rows is not None:
                rows.fill_(float("nan"))


def reserve(
    shape: Shape,
    config: Config,
    dtype: torch.dtype,
    device: torch.device | str,
    *,
    scaled: bool = False,
) -> Workspace:
    """Allocate a workspace for activations of `dtype`; `scaled` for block-scaled weights.

    Raises:
        ValueError: for a variant that fits neither the device nor the weights.
    """
    problem = unsuited(config, scaled=scaled)
    if problem:
        raise ValueError(f"{config} cannot run: {problem}")
    work = None
    if isinstance(config, HopperConfig):
        work = Work(
            columns1=triton.cdiv(shape.inter, hopper_launch.COLUMNS_1),
            width1=hopper_launch.COLUMNS_1,
            columns2=triton.cdiv(shape.hidden, hopper_launch.COLUMNS_2),
            width2=hopper_launch.COLUMNS_2,
            late=config.late,
            group=config.group,
        )
    schedule = allocate(shape.tokens, shape.top_k, shape.experts, config.cut, work, device)
    rows = schedule.choices
    return Workspace(
        shape,
        config,
        schedule,
        x=empty_groups(shape.tokens, shape.hidden, device) if scaled else None,
        h=(
            empty_groups(rows, shape.inter, device)
            if scaled
            else torch.empty(rows, shape.inter, dtype=dtype, device=device)
        ),
        y=torch.empty(rows, shape.hidden, dtype=dtype, device=device),
    )


def unsuited(config: Config, *, scaled: bool) -> str | None:
    """Why a variant cannot run on this machine or on such weights, or None."""
    if isinstance(config, PortableConfig):
        if not 16 <= config.rows <= MOST_ROWS or config.rows & (config.rows - 1):
            return f"{config.rows} rows are not a power of two from 16 to {MOST_ROWS}"
        if scaled and (config.columns != BLOCK or BLOCK % config.inner):
            return f"block-scaled weights need {BLOCK} columns, and inner steps that divide {BLOCK}"
        return None
    if scaled:
        return "the Hopper kernel takes no block-scaled weights; use the portable path"
    if BACKEND is Backend.INTERPRETER:
        return "the Hopper kernel has no interpreter; use the portable path"
    return hopper_tile(config).problem()


def with_hidden(workspace: Workspace, h: torch.Tensor) -> Workspace:
    """The same workspace writing layer 0 to `h`."""
    return replace(workspace, h=h)


def hopper_tile(config: HopperConfig) -> hopper_launch.HopperTile:
    return hopper_launch.HopperTile(
        config.body, config.tail, config.stages, config.producer_registers
    )
