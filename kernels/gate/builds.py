"""What the gate builds: each kernel with operands of a real size, as the layer would launch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from kernels.epilogue import triton_kernels as epilogue
from kernels.moe import grouped_gemm, scaled_gemm, schedule_kernels
from kernels.moe.configs import HopperConfig, PortableConfig, default_portable, default_scaled
from kernels.moe.hopper import launch as hopper_launch
from kernels.moe.hopper.kernel import sm90_moe_kernel
from kernels.moe.scaled import BLOCK, DTYPE, groups_of
from kernels.moe.shapes import NAMED, Shape

SHAPE = NAMED["a"]
ROWS = SHAPE.tokens * SHAPE.top_k
# Rows that begin at no multiple of 16 bytes in 8-bit floats.
ODD_SHAPE = replace(SHAPE, hidden=1000, inter=200)
HOPPER_VARIANTS = (
    HopperConfig(128, 64, 4, 56),
    HopperConfig(128, 32, 4, 48),
    HopperConfig(64, 32, 5, 48),
    HopperConfig(64, 16, 5, 48),
)

Build = Callable[[], Any]


def builds(target: str) -> Iterator[tuple[str, Build]]:
    """Names and compilations for a target; the Hopper kernel only where it can run."""
    yield "epilogue.gelu_linear", _gelu_linear
    yield "epilogue.add_relu", _add_relu
    yield "moe.count", _count
    # Only the Hopper kernel, launched next, may begin early.
    hopper = target == "sm_90"
    yield "moe.place", lambda: _place(hopper)
    yield "moe.place.few", lambda: _place(hopper, every=512, experts=256)
    for rows in (8, 64, 256):
        config = default_portable(rows, on_gpu=True)
        yield f"moe.gate_up.{config.rows}", lambda config=config: _gate_up(config)
        yield f"moe.down.{config.rows}", lambda config=config: _down(config)
    # gfx942 multiplies another 8-bit float, so there e4m3 codes are widened, as on sm_80.
    native = hopper
    yield "moe.scaled.quantise", lambda: _quantise(native)
    for rows in (8, 256):
        config = default_scaled(rows, on_gpu=True, native=native)
        yield (
            f"moe.scaled.gate_up.{config.rows}",
            lambda config=config: _scaled_gate_up(config, native),
        )
        yield f"moe.scaled.down.{config.rows}", lambda config=config: _scaled_down(config, native)
    odd = default_scaled(8, on_gpu=True, native=native, aligned=False)
    yield "moe.scaled.gate_up.odd", lambda: _scaled_gate_up(odd, native, ODD_SHAPE)
    yield "moe.scaled.down.odd", lambda: _scaled_down(odd, native, ODD_SHAPE)
    yield "moe.combine", _combine
    yield "moe.activation", _activation
    if hopper:
        for variant in HOPPER_VARIANTS:
            name = f"moe.sm90.{variant.body}x{variant.tail}"
            yield name, lambda variant=variant: _hopper(variant)


def operand(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A tensor with a size and a type, and no memory."""
    return torch.empty(size, dtype=dtype, device="meta")


def integers(count: int) -> torch.Tensor:
    return operand(count, dtype=torch.int32)


def _gelu_linear() -> Any:
    m, n, k = 4096, 4096, 4096
    x, w, out = operand(m, k), operand(k, n), operand(m, n)
    return epilogue.gelu_linear_kernel.warmup(
        x, w, operand(n), out, m, n, k, 0.7, *x.stride(), *w.stride(), *out.stride(),
        BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, grid=(4096,),
    )  # fmt: skip


def _add_relu() -> Any:
    many = 1 << 20
    x = operand(many)
    return epilogue.add_relu_kernel.warmup(x, x, x, many, BLOCK=1024, grid=(1024,))


def _count() -> Any:
    return schedule_kernels.count_kernel.warmup(
        integers(ROWS), operand(128 * 64, dtype=torch.int16), integers(ROWS), ROWS, SHAPE.experts,
        EXPERTS=64, BLOCK=128, num_warps=4, grid=(128,),
    )  # fmt: skip


def _place(overlapped: bool, every: int = 0, experts: int = 64) -> Any:
    return schedule_kernels.place_kernel.warmup(
        integers(ROWS), integers(128 * 64), integers(ROWS), integers(experts + 1), integers(ROWS),
        integers(ROWS), integers(800), integers(40_000), integers(5), integers(216),
        every or ROWS, 128, SHAPE.tokens, experts, 216,
        EXPERTS=experts, BLOCK=16 if every else 128, BLOCKS=8192 // experts, ALL=every,
        PACKED=True,
        BM=128, BT=64, WIDE=True,
        ITEMS=True, N1=6, WIDTH1=128, N2=16, WIDTH2=256, EARLY=15,
        COMBINE_TOKENS=32, GROUP=2, WRITE=64, SPAN=4, OVERLAPPED=overlapped,
        num_warps=4, grid=(128,),
    )  # fmt: skip


def _gate_up(config: PortableConfig) -> Any:
    x = operand(SHAPE.tokens, SHAPE.hidden)
    w13 = operand(SHAPE.experts, 2 * SHAPE.inter, SHAPE.hidden)
    return grouped_gemm.gate_up_kernel.warmup(
        x, w13, operand(ROWS, SHAPE.inter), integers(ROWS), integers(800), integers(5),
        SHAPE.hidden, SHAPE.inter, *x.stride(), *w13.stride(), TOP_K=SHAPE.top_k,
        ACTIVATE=True, **_blocks(config), grid=(800,),
    )  # fmt: skip


def _down(config: PortableConfig) -> Any:
    w2 = operand(SHAPE.experts, SHAPE.hidden, SHAPE.inter)
    weights = operand(SHAPE.tokens, SHAPE.top_k, dtype=torch.float32)
    return grouped_gemm.down_kernel.warmup(
        operand(ROWS, SHAPE.inter), w2, operand(ROWS, SHAPE.hidden), integers(ROWS), weights,
        integers(800), integers(5), SHAPE.hidden, SHAPE.inter, *w2.stride(),
        TOP_K=SHAPE.top_k, ATOMIC=False, **_blocks(config), grid=(800,),
    )  # fmt: skip


def _codes(*size: int, native: bool) -> torch.Tensor:
    return operand(*size, dtype=DTYPE if native else torch.uint8)


def _scales(*size: int) -> torch.Tensor:
    return operand(*size, dtype=torch.float32)


def _quantise(native: bool) -> Any:
    x = operand(SHAPE.tokens, SHAPE.hidden)
    return scaled_gemm.quantise_kernel.warmup(
        x, _codes(*x.shape, native=native), _scales(SHAPE.tokens, groups_of(SHAPE.hidden)),
        *x.shape, *x.stride(), ROWS=16, NATIVE=native, num_warps=4,
        grid=(SHAPE.tokens // 16, SHAPE.hidden // BLOCK),
    )  # fmt: skip


def _scaled_gate_up(config: PortableConfig, native: bool, shape: Shape = SHAPE) -> Any:
    x, h = (shape.tokens, shape.hidden), (ROWS, shape.inter)
    w13 = _codes(shape.experts, 2 * shape.inter, shape.hidden, native=native)
    scales = _scales(shape.experts, *(groups_of(side) for side in w13.shape[1:]))
    return scaled_gemm.scaled_gate_up_kernel.warmup(
        _codes(*x, native=native), _scales(x[0], groups_of(x[1])), w13, scales,
        _codes(*h, native=native), _scales(h[0], groups_of(h[1])),
        integers(ROWS), integers(800), integers(5),
        shape.hidden, shape.inter, *w13.stride(), *scales.stride(), TOP_K=shape.top_k,
        ACTIVATE=True, NATIVE=native, **_blocks(config), grid=(800,),
    )  # fmt: skip


def _scaled_down(config: PortableConfig, native: bool, shape: Shape = SHAPE) -> Any:
    h = (ROWS, shape.inter)
    w2 = _codes(shape.experts, shape.hidden, shape.inter, native=native)
    scales = _scales(shape.experts, *(groups_of(side) for side in w2.shape[1:]))
    return scaled_gemm.scaled_down_kernel.warmup(
        _codes(*h, native=native), _scales(h[0], groups_of(h[1])), w2, scales,
        operand(ROWS, shape.hidden), integers(ROWS), _scales(shape.tokens, shape.top_k),
        integers(800), integers(5), shape.hidden, shape.inter, *w2.stride(), *scales.stride(),
        TOP_K=shape.top_k, ATOMIC=False, NATIVE=native, **_blocks(config), grid=(800,),
    )  # fmt: skip


def _combine() -> Any:
    weights = operand(SHAPE.tokens, SHAPE.top_k, dtype=torch.float32)
    return grouped_gemm.combine_kernel.warmup(
        operand(ROWS, SHAPE.hidden), operand(SHAPE.tokens, SHAPE.hidden), integers(ROWS), weights,
        SHAPE.tokens, SHAPE.hidden, TOP_K=SHAPE.top_k, TOKENS=8, COLUMNS=256, grid=(256, 16),
    )  # fmt: skip


def _activation() -> Any:
    return grouped_gemm.activation_kernel.warmup(
        operand(ROWS, 2 * SHAPE.inter), operand(ROWS, SHAPE.inter), integers(1), SHAPE.inter,
        BLOCK=1024, grid=(ROWS,),
    )  # fmt: skip


def _hopper(config: HopperConfig) -> Any:
    tile = hopper_launch.HopperTile(
        config.body, config.tail, config.stages, config.producer_registers
    )
    w13 = operand(SHAPE.experts, 2 * SHAPE.inter, SHAPE.hidden)
    w2 = operand(SHAPE.experts, SHAPE.hidden, SHAPE.inter)
    layout = hopper_launch.layouts(tile)
    x, h = operand(SHAPE.tokens, SHAPE.hidden), operand(ROWS, SHAPE.inter)
    weights = operand(SHAPE.tokens, SHAPE.top_k, dtype=torch.float32)
    five = integers(8)
    return sm90_moe_kernel.warmup(
        *hopper_launch.descriptors(w13, w2, tile), x, h, operand(ROWS, SHAPE.hidden), x,
        integers(ROWS), integers(ROWS), weights, SHAPE.tokens, integers(40_000),
        five, five, five, integers(192), five, h, SHAPE.hidden, SHAPE.inter, SHAPE.top_k,
        tile.body, tile.tail, tile.tail_is_m, tile.stages, tile.tail_stages,
        tile.producer_registers, layout.body, layout.tail, layout.body_1, layout.body_2,
        layout.tail_1, layout.tail_2, True, 0, num_warps=8, launch_pdl=True, grid=(132,),
    )  # fmt: skip


def _blocks(config: PortableConfig) -> dict[str, int]:
    return {
        "BM": config.rows,
        "BN": config.columns,
        "BK": config.inner,
        "num_warps": config.warps,
        "num_stages": config.stages,
    }
