"""Operands whose elements lie further apart than 32-bit offsets reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kernels.backend import BACKEND, Backend
from kernels.moe.configs import PortableConfig
from kernels.moe.layer import moe
from kernels.moe.routing import Routing
from kernels.moe.scaled import BlockScaled, quantise_blocks
from kernels.moe.shapes import Shape
from tests.kernels.moe.layer_call import Operands, operands
from tests.kernels.moe.virtual import FAR, spread

pytestmark = pytest.mark.skipif(
    BACKEND is Backend.GPU, reason="spreads tensors in the CPU's virtual memory"
)


def everywhere(call: Operands) -> Operands:
    """The same call with tokens that go to the last expert too, whose weights lie furthest."""
    ids = call.routing.ids.clone()
    ids[:, 0], ids[:, 1] = 0, 2
    return replace(call, routing=Routing(ids, call.routing.weights))


@pytest.mark.parametrize("name", ["w13", "w2"])
def test_experts_may_lie_far_apart(name: str) -> None:
    call = everywhere(operands(Shape(10, 2, 3, 20, 8), dtype=torch.bfloat16))
    weights = getattr(call, name)
    _, row, column = weights.stride()

    far = replace(call, **{name: spread(weights, (FAR // 2, row, column))})

    assert torch.equal(far.run(), call.run())


@pytest.mark.parametrize("name", ["w13", "w2"])
def test_rows_of_weights_may_lie_far_apart(name: str) -> None:
    call = everywhere(operands(Shape(10, 2, 3, 8, 4), dtype=torch.bfloat16))
    weights = getattr(call, name)

    far = replace(call, **{name: spread(weights, (16, FAR // 2, 1))})

    assert torch.equal(far.run(), call.run())


@pytest.mark.parametrize("strides", [(FAR // 2, 1), (1, FAR // 2)], ids=["rows", "columns"])
def test_activations_beside_block_scaled_weights_may_lie_far_apart(
    strides: tuple[int, int],
) -> None:
    call = operands(Shape(6, 2, 3, 4, 8), dtype=torch.bfloat16)
    weights = {"w13": quantise_blocks(call.w13), "w2": quantise_blocks(call.w2)}

    outs = [run_scaled(x, weights, call.routing) for x in (call.x, spread(call.x, strides))]

    assert torch.equal(*outs)


def run_scaled(x: torch.Tensor, weights: dict[str, BlockScaled], routing: Routing) -> torch.Tensor:
    config = PortableConfig(16, 128, 64)
    return moe(x, **weights, ids=routing.ids, weights=routing.weights, config=config)


@pytest.mark.parametrize("name", ["x", "w13", "w2"])
def test_an_inner_stride_that_no_step_can_hold_is_refused(name: str) -> None:
    call = operands(Shape(6, 2, 3, 4, 8), dtype=torch.bfloat16)
    tensor = getattr(call, name)
    rows = tuple(range(1, tensor.dim()))

    with pytest.raises(ValueError, match=f"{name} has an inner stride of {FAR // 16}, and 16"):
        replace(call, **{name: spread(tensor, (*rows, FAR // 16))}).run()


def test_an_inner_stride_that_a_step_can_just_hold_is_right() -> None:
    call = operands(Shape(6, 2, 3, 20, 8), dtype=torch.bfloat16)

    far = replace(call, x=spread(call.x, (1, FAR // 16 - 1)))

    assert torch.equal(far.run(), call.run())
