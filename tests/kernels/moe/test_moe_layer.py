from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.accuracy import REL_L2_BOUND, within
from kernels.moe.layer import reserve
from kernels.moe.routing import KINDS, Routing
from kernels.moe.shapes import Shape
from tests.kernels.moe.layer_call import DEVICE, SMALL, Operands, operands

SHAPES = [
    Shape(24, 2, 6, 64, 32),
    Shape(13, 3, 5, 50, 37),
    Shape(1, 1, 1, 16, 16),
    Shape(0, 2, 4, 32, 32),
    Shape(40, 1, 3, 33, 17),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_agrees_with_float64(shape: Shape, dtype: torch.dtype) -> None:
    given_operands = operands(shape, dtype=dtype)

    out = given_operands.run()

    assert within(given_operands.error(out), REL_L2_BOUND[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("combine", ["ordered", "atomic"])
def test_every_routing_in_both_combinations(kind: str, combine: str) -> None:
    given_operands = operands(Shape(21, 2, 5, 40, 24), kind)

    out = given_operands.run(combine=combine)

    assert within(given_operands.error(out), REL_L2_BOUND[torch.float32])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_routing_and_odd_size(data: st.DataObject) -> None:
    experts, top_k = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    shape = Shape(
        data.draw(st.integers(1, 18)), top_k, experts,
        data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40)),
    )  # fmt: skip
    dtype = data.draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
    drawn = operands(replace_top_k(shape, min(top_k, experts)), dtype=dtype)
    count = shape.tokens * shape.top_k
    flat = data.draw(st.lists(st.integers(-1, experts), min_size=count, max_size=count))
    ids = torch.tensor(flat, dtype=torch.int32, device=DEVICE).view(shape.tokens, shape.top_k)
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32 - 1)))
    weights = torch.rand(shape.tokens, shape.top_k, generator=draw).to(DEVICE)
    routed = Operands(drawn.x, drawn.w13, drawn.w2, Routing(ids, weights))

    out = routed.run()

    assert (routed.distance(out) <= routed.rounding()).all()


def replace_top_k(shape: Shape, top_k: int) -> Shape:
    return Shape(shape.tokens, top_k, shape.experts, shape.hidden, shape.inter)


def test_a_token_without_experts_is_zero_even_if_its_weights_are_nan() -> None:
    given_operands = operands(Shape(10, 2, 4, 32, 16))
    given_operands.routing.ids[3] = -1
    given_operands.routing.weights[3] = math.nan

    out = given_operands.run()

    assert torch.equal(out[3], torch.zeros_like(out[3]))
    assert out.isfinite().all()


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_a_spoilt_token_leaves_the_others_alone(spoilt: float) -> None:
    given_operands = operands(Shape(20, 2, 3, 32, 16))
    clean = given_operands.run()
    given_operands.x[7] = spoilt

    out = given_operands.run()

    others = [token for token in range(20) if token != 7]
    assert out[7].isnan().all()
    assert torch.equal(out[others], clean[others])


def test_runs_give_the_same_bits_from_a_reused_workspace() -> None:
    given_operands = operands(Shape(20, 2, 4, 32, 16), dtype=torch.bfloat16)
    workspace = reserve(Shape(20, 2, 4, 32, 16), SMALL, torch.bfloat16, DEVICE)

    outs = [given_operands.run(workspace=workspace) for _ in range(3)]

    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], outs[2])


def test_operands_may_be_strided_on_the_portable_path() -> None:
    given_operands = operands(Shape(12, 2, 3, 32, 16))
    x = torch.cat([given_operands.x, given_operands.x], 1)[:, :32]
    w13 = given_operands.w13.transpose(1, 2).contiguous().transpose(1, 2)
    w2 = torch.stack([given_operands.w2, given_operands.w2], 1)[:, 1]

    out = Operands(x, w13, w2, given_operands.routing).run()

    assert torch.equal(out, given_operands.run())


def test_ids_may_be_int64_and_strided() -> None:
    given_operands = operands(Shape(12, 2, 3, 32, 16))
    ids = torch.stack([given_operands.routing.ids.long()] * 2, 2)[:, :, 0]
    weights = given_operands.routing.weights.t().contiguous().t()
    same = Operands(given_operands.x, given_operands.w13, given_operands.w2, Routing(ids, weights))

    assert torch.equal(same.run(), given_operands.run())


def test_wide_ids_whose_low_half_names_an_expert_are_dropped() -> None:
    given_operands = operands(Shape(12, 2, 3, 32, 16))
    narrow = given_operands.routing.ids.clone()
    narrow[[1, 4, 7], 0] = -1
    wide = narrow.long()
    wide[[1, 4, 7], 0] = torch.tensor([2**32 + 1, 2**40, -(2**40)], device=DEVICE)
    weights = given_operands.routing.weights
    dropped, outside = (
        Operands(given_operands.x, given_operands.w13, given_operands.w2, Routing(ids, weights))
        for ids in (narrow, wide)
    )

    out = outside.run()

    assert torch.equal(out, dropped.run())
    assert within(outside.error(out), REL_L2_BOUND[torch.float32])
