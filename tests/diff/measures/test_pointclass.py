"""The class of a point, and the centre that suits it."""

from __future__ import annotations

import random

import pytest

from orchestrator.diff.measures.pointclass import Block, classify, floor, modes, threshold

STEADY = [100.0, 100.2, 99.9, 100.1, 100.3, 99.8, 100.0, 100.1]


def test_fewer_than_six_blocks_have_no_class() -> None:
    assert classify(STEADY[:5]) == "too_few"
    assert classify(STEADY[:6]) == "stable"
    assert modes([1.0, 1.0, 2.0, 2.0, 2.0]) is None


@pytest.mark.parametrize(
    ("medians", "kind"),
    [
        (STEADY, "stable"),
        ([*STEADY[:7], 104.0], "fluctuating"),  # a range above 3 %
        ([100.0, 101.5, 98.5, 101.4, 98.6, 101.0, 99.0, 100.5], "fluctuating"),
        ([100.0, 100.1, 99.9, 100.0, 106.0, 106.1, 105.9, 106.0], "bimodal"),
        ([100.0] * 8, "stable"),
    ],
)
def test_the_class_follows_the_constants(medians: list[float], kind: str) -> None:
    assert classify(medians) == kind


def test_two_modes_have_centres_and_a_share() -> None:
    found = modes([100.0, 100.1, 99.9, 106.0, 106.1, 105.9, 106.0, 106.0])

    assert found is not None
    assert found.low == pytest.approx(100, rel=1e-3)
    assert found.high == pytest.approx(106, rel=1e-3)
    assert found.low_share == 3 / 8


def test_one_block_far_away_is_no_mode() -> None:
    assert modes([*STEADY[:7], 130.0]) is None


def test_two_modes_less_than_one_per_cent_apart_are_one() -> None:
    assert modes([100.0, 100.0, 100.0, 100.0, 100.9, 100.9, 100.9, 100.9]) is None


def test_a_scale_changes_no_class() -> None:
    for scale in (1e-9, 1e9):
        scaled = [scale * value for value in [*STEADY[:4], 106.0, 106.1, 105.9, 106.0]]
        assert classify(scaled) == "bimodal"


def test_noise_of_one_shape_is_rarely_two_modes() -> None:
    draw = random.Random(7)
    false = sum(modes([draw.gauss(100, 1) for _ in range(8)]) is not None for _ in range(2000))

    assert false / 2000 <= 0.03, "what the thresholds were calibrated to"


def test_modes_six_per_cent_apart_are_found() -> None:
    draw = random.Random(7)
    found = sum(
        modes([draw.gauss(100 if n % 2 else 106, 0.5) for n in range(8)]) is not None
        for _ in range(500)
    )

    assert found / 500 > 0.8


def test_the_threshold_is_linear_between_its_rows() -> None:
    assert threshold(6) == 6.5
    assert threshold(7) == pytest.approx((6.5 + 5.75) / 2)
    assert threshold(200) == 1.75
    assert all(threshold(n) >= threshold(n + 1) for n in range(6, 40))


def test_the_floor_is_repeated_or_it_is_none() -> None:
    repeated = floor([Block(110, 100.0), Block(120, 100.5), Block(130, 100.9), Block(140, 120)])
    lucky = floor([Block(110, 90.0), Block(120, 100.5), Block(130, 100.9), Block(140, 120)])

    assert (repeated.value, repeated.repeated) == (100.5, True)
    assert not lucky.repeated


def test_of_rates_the_best_are_the_largest() -> None:
    blocks = [Block(90, 100.0), Block(80, 99.8), Block(70, 99.5), Block(60, 61)]

    found = floor(blocks, higher_is_better=True)

    assert (found.value, found.repeated) == (99.8, True)
