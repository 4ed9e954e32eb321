"""Block-scaled operands: the types, their rounding, and problems drawn with them."""

from __future__ import annotations

import math

import pytest
import torch

from kernels.accuracy import (
    E4M3_PRODUCT_REL_L2_BOUND,
    REL_L2_BOUND,
)
from kernels.backend import BACKEND, Backend
from kernels.moe import portable, problem
from kernels.moe.problem import draw_problem
from kernels.moe.scaled import (
    DTYPE,
    BlockScaled,
    empty_groups,
    quantise_blocks,
    quantise_groups,
)
from kernels.moe.shapes import Shape

DEVICE = BACKEND.device


def test_a_block_is_divided_by_its_largest_magnitude_over_448() -> None:
    weights = torch.zeros(1, 130, 129)
    weights[0, 0, 0], weights[0, 127, 127] = -896.0, 3.0
    weights[0, 128, 0], weights[0, 0, 128] = 448.0, 0.4375

    scaled = quantise_blocks(weights)

    assert scaled.scales.tolist() == [[[2.0, 2.0**-10], [1.0, 1.0]]]
    assert torch.equal(scaled.expert(0, torch.float32), weights[0])


def test_a_rounded_value_is_at_most_a_sixteenth_of_itself_or_half_a_step_away() -> None:
    weights = torch.randn(2, 200, 300, dtype=torch.float64)

    scaled = quantise_blocks(weights)

    back = torch.stack([scaled.expert(number, torch.float64) for number in range(2)])
    allowed = weights.abs() / 16 + scaled.scales.max() * 2.0**-10
    assert ((back - weights).abs() <= allowed * (1 + 1e-6)).all()


def test_a_group_of_zeros_or_of_the_smallest_numbers_has_scale_one() -> None:
    rows = torch.zeros(2, 256)
    rows[1, 3] = 1e-44

    scaled = quantise_groups(rows)

    assert scaled.scales.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert not scaled.values.float().any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("size", [(1, 1), (17, 128), (33, 300)])
def test_the_kernel_rounds_rows_as_torch_does(dtype: torch.dtype, size: tuple[int, int]) -> None:
    rows = (torch.randn(size) * torch.logspace(-4, 3, size[0])[:, None]).to(DEVICE, dtype)
    rows[size[0] // 2] = 0.0
    rows[0, 0] = math.nan
    rows[-1] = math.nan
    into = empty_groups(*size, DEVICE)
    into.poison()

    portable.quantise(rows, into)

    expected = quantise_groups(rows)
    assert torch.equal(into.scales, expected.scales)
    codes, right = into.values.view(torch.uint8), expected.values.view(torch.uint8)
    assert torch.equal(codes & 0x7F, right & 0x7F)
    # The sign of NaN is nobody's promise.
    numbers = (right & 0x7F) != 0x7F
    assert torch.equal(codes[numbers], right[numbers])


@pytest.mark.parametrize(
    ("values", "scales", "said"),
    [
        (torch.zeros(2, 3, 4), torch.ones(2, 1, 1), "not torch.float32 with"),
        (torch.zeros(2, 3, 4, dtype=torch.float8_e4m3fnuz), torch.ones(2, 1, 1), "e4m3fnuz"),
        (torch.zeros(2, 3, 4, dtype=DTYPE), torch.ones(2, 1, 1).half(), "float16"),
        (torch.zeros(2, 3, dtype=DTYPE), torch.ones(2, 1), r"are \(E, N, K\)"),
        (torch.zeros(2, 129, 4, dtype=DTYPE), torch.ones(2, 1, 1), r"need scales \(2, 2, 1\)"),
    ],
)
def test_scales_that_do_not_fit_are_named(
    values: torch.Tensor, scales: torch.Tensor, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        BlockScaled(values, scales)


def test_products_of_a_tensor_core_are_given_their_rate_and_a_wider_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled = draw_problem(Shape(4, 2, 3, 32, 16), "uniform", DTYPE, seed=0)
    here = (scaled.product_rate, scaled.bound)

    monkeypatch.setattr(problem, "multiplies_e4m3", lambda device: True)

    assert BACKEND is Backend.GPU or here == (1, REL_L2_BOUND[torch.bfloat16])
    assert (scaled.product_rate, scaled.bound) == (2, E4M3_PRODUCT_REL_L2_BOUND)
    assert scaled.unquantised().product_rate == 1
    assert scaled.weight_bytes == pytest.approx(1 + 4 / (32 * 32))


def test_fresh_activations_and_routing_reach_the_problem_before_rounding_too() -> None:
    scaled = draw_problem(Shape(4, 2, 3, 32, 16), "uniform", DTYPE, seed=0)
    plain = scaled.unquantised()

    scaled.fresh(1)

    assert plain.x is scaled.x
    assert plain.ids is scaled.ids
    assert isinstance(plain.w13, torch.Tensor)
    assert plain.unquantised() is plain
