from __future__ import annotations

import pytest

from kernels.moe.shapes import NAMED, Shape


def test_operations_and_bytes_of_the_seed_shape() -> None:
    shape = NAMED["a"]

    assert shape.flops == 6 * 2048 * 8 * 4096 * 768
    assert shape.bytes_moved(64, 2) == 1_207_959_552 + 2 * 2048 * 4096 * 2


@pytest.mark.parametrize(
    ("name", "active", "expected_us"),
    [("a", 64, 391), ("c", 128, 570), ("decode64", 126, 553)],
)
def test_the_floor_is_the_longer_of_computing_and_moving(
    name: str, active: int, expected_us: float
) -> None:
    floor_us = NAMED[name].floor_us(active, 2, flops_per_s=790e12, bytes_per_s=4.3e12)

    assert floor_us == pytest.approx(expected_us, rel=0.01)


def test_8_bit_weights_halve_the_bytes_that_are_weights() -> None:
    shape = NAMED["c"]
    scaled = shape.bytes_moved(128, 2, weight_bytes=1 + 4 / 128**2)
    activations = 2 * 2048 * 4096 * 2

    assert scaled - activations == pytest.approx(1_207_959_552 * (1 + 4 / 128**2))
    assert shape.floor_us(128, 2, 1580e12, 4.3e12, 1 + 4 / 128**2) == pytest.approx(289, rel=0.01)


def test_a_layer_without_tokens_has_no_floor_but_its_weights() -> None:
    assert Shape(0, 2, 4, 8, 8).floor_us(0, 2, 1e12, 1e12) == 0.0
