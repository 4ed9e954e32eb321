"""The layer on block-scaled weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.accuracy import (
    E4M3_REL_L2_BOUND,
    REL_L2_BOUND,
    poisoned,
    rel_l2,
    within,
)
from kernels.backend import BACKEND
from kernels.moe.configs import HopperConfig, PortableConfig
from kernels.moe.layer import moe
from kernels.moe.reference import moe_reference
from kernels.moe.routing import KINDS, Routing, draw_routing
from kernels.moe.scaled import (
    BLOCK,
    DTYPE,
    BlockScaled,
    quantise_blocks,
    quantise_groups,
)
from kernels.moe.shapes import Shape
from kernels.moe.workspace import reserve

DEVICE = BACKEND.device
SMALL = PortableConfig(16, 128, 64)
# Float32 sums in another order may round a hidden value to the next e4m3 step, an eighth away.
ONE_STEP = 2.0**-3


@dataclass(frozen=True)
class Operands:
    x: torch.Tensor
    w13: BlockScaled
    w2: BlockScaled
    full: tuple[torch.Tensor, torch.Tensor]
    routing: Routing

    @property
    def shape(self) -> Shape:
        (tokens, hidden), experts = self.x.shape, self.w13.shape[0]
        return Shape(tokens, self.routing.top_k, experts, hidden, self.w2.shape[2])

    def run(self, **options: object) -> torch.Tensor:
        workspace = reserve(self.shape, SMALL, self.x.dtype, DEVICE, scaled=True)
        workspace.poison()
        out = poisoned(*self.x.shape, dtype=self.x.dtype, device=DEVICE)
        return moe(
            self.x, self.w13, self.w2, self.routing.ids, self.routing.weights,
            **({"workspace": workspace, "out": out} | options),  # type: ignore[arg-type]
        )  # fmt: skip

    def error(self, out: torch.Tensor) -> float:
        ids, weights = self.routing.ids, self.routing.weights
        return rel_l2(out, moe_reference(self.x, self.w13, self.w2, ids, weights))

    @property
    def bound(self) -> float:
        hidden_values = max(1, self.routing.ids.numel() * self.shape.inter)
        return REL_L2_BOUND[torch.bfloat16] + ONE_STEP / math.sqrt(hidden_values)


def operands(
    shape: Shape, kind: str = "uniform", dtype: torch.dtype = torch.bfloat16, seed: int = 0
) -> Operands:
    """Random operands; blocks differ by up to a factor of 16, so that no scale suits another."""
    draw = torch.Generator().manual_seed(seed)

    def weights(rows: int, columns: int) -> torch.Tensor:
        size = (shape.experts, rows, columns)
        drawn = torch.randn(size, generator=draw) * columns**-0.5
        grid = (shape.experts, -(-rows // BLOCK), -(-columns // BLOCK))
        spread = 2.0 ** torch.randint(-2, 3, grid, generator=draw)
        spread = spread.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
        return (drawn * spread[:, :rows, :columns]).to(DEVICE, torch.bfloat16)

    full = (weights(2 * shape.inter, shape.hidden), weights(shape.hidden, shape.inter))
    return Operands(
        torch.randn(shape.tokens, shape.hidden, generator=draw).to(DEVICE, dtype),
        quantise_blocks(full[0]),
        quantise_blocks(full[1]),
        full,
        draw_routing(kind, shape.tokens, shape.experts, shape.top_k, seed, DEVICE),
    )


@pytest.mark.parametrize(
    "shape",
    [
        Shape(24, 2, 6, 128, 64),
        Shape(13, 3, 5, 300, 150),
        Shape(1, 1, 1, 16, 16),
        Shape(0, 2, 4, 32, 32),
        Shape(20, 1, 3, 129, 17),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_agrees_with_float64_before_and_after_rounding(shape: Shape, dtype: torch.dtype) -> None:
    call = operands(shape, dtype=dtype)

    out = call.run()

    full = moe_reference(call.x, *call.full, call.routing.ids, call.routing.weights)
    assert within(call.error(out), call.bound)
    # A single row of 16 values may be rounded worse than the bound for whole layers allows.
    assert within(rel_l2(out, full), E4M3_REL_L2_BOUND * (2 if shape.tokens == 1 else 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("combine", ["ordered", "atomic"])
def test_every_routing_in_both_combinations(kind: str, combine: str) -> None:
    call = operands(Shape(19, 2, 5, 140, 40), kind)

    out = call.run(combine=combine)

    assert within(call.error(out), call.bound)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_routing_and_odd_size(data: st.DataObject) -> None:
    experts, tokens = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 18))
    top_k = data.draw(st.integers(1, min(3, experts)))
    size = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 127, 128, 129, 200]))
    shape = Shape(tokens, top_k, experts, data.draw(size), data.draw(size))
    drawn = operands(shape, dtype=data.draw(st.sampled_from([torch.float16, torch.bfloat16])))
    count = tokens * top_k
    flat = data.draw(st.lists(st.integers(-1, experts), min_size=count, max_size=count))
    ids = torch.tensor(flat, dtype=torch.int32, device=DEVICE).view(tokens, top_k)
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32 - 1)))
    weights = torch.rand(tokens, top_k, generator=draw).to(DEVICE)
    call = replace(drawn, routing=Routing(ids, weights))

    out = call.run()

    assert within(call.error(out), call.bound)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_a_spoilt_value_reaches_its_own_token_only(spoilt: float) -> None:
    call = operands(Shape(20, 2, 3, 140, 40))
    clean = call.run()
    call.x[7, 5] = spoilt

    out = call.run()

    others = [token for token in range(20) if token != 7]
    assert out[7].isnan().all()
    assert torch.equal(out[others], clean[others])


def test_a_row_of_zeros_gives_zeros() -> None:
    call = operands(Shape(9, 2, 3, 140, 40))
    call.x[4] = 0.0

    out = call.run()

    assert not out[4].any()
    assert within(call.error(out), call.bound)


def test_runs_give_the_same_bits_from_a_reused_workspace() -> None:
    call = operands(Shape(20, 2, 4, 140, 40))
    workspace = reserve(call.shape, SMALL, call.x.dtype, DEVICE, scaled=True)

    outs = [call.run(workspace=workspace) for _ in range(3)]

    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], outs[2])


def test_operands_and_scales_may_be_strided() -> None:
    call = operands(Shape(12, 2, 3, 140, 136))

    def strided(weights: BlockScaled) -> BlockScaled:
        codes = weights.values.view(torch.uint8).transpose(1, 2).contiguous().transpose(1, 2)
        scales = torch.stack([weights.scales] * 2, 3)[..., 1]
        return BlockScaled(codes.view(DTYPE), scales)

    x = torch.cat([call.x, call.x], 1)[:, :140]
    same = replace(call, x=x, w13=strided(call.w13), w2=strided(call.w2))

    assert torch.equal(same.run(), call.run())


def test_calls_that_mix_dtypes_or_variants_are_refused() -> None:
    call = operands(Shape(6, 2, 3, 32, 16))
    ids, weights = call.routing.ids, call.routing.weights
    plain = reserve(call.shape, SMALL, call.x.dtype, DEVICE)

    with pytest.raises(ValueError, match="both be block-scaled, or neither"):
        moe(call.x, call.w13, call.full[1], ids, weights)
    with pytest.raises(ValueError, match="come with their scales"):
        moe(call.x, call.w13.values, call.w2.values, ids, weights)
    with pytest.raises(ValueError, match="plain weights, the call is"):
        call.run(workspace=plain)
    with pytest.raises(ValueError, match="need 128 columns"):
        call.run(workspace=None, config=PortableConfig(16, 64, 64))
    with pytest.raises(ValueError, match="the Hopper kernel"):
        call.run(workspace=None, config=HopperConfig())


def test_the_reference_is_the_plain_one_on_dequantised_operands_but_for_the_hidden_rows() -> None:
    call = operands(Shape(12, 2, 3, 260, 200))
    ids, weights = call.routing.ids, call.routing.weights
    w13, w2 = (
        torch.stack([scaled.expert(number, torch.float64) for number in range(3)])
        for scaled in (call.w13, call.w2)
    )
    x = quantise_groups(call.x).dequantised(torch.float64)

    plain = moe_reference(x, w13, w2, ids, weights)

    # One rounding to e4m3, 2.6e-2 rms, is all that lies between.
    assert 0.01 < rel_l2(moe_reference(call.x, call.w13, call.w2, ids, weights), plain) < 0.04
    assert 0.01 < rel_l2(call.run(), plain) < 0.04
