from __future__ import annotations

import math

import pytest
import torch

from kernels.accuracy import poisoned, rel_l2, within


def test_error_is_relative_to_the_reference() -> None:
    reference = torch.tensor([3.0, 4.0])
    out = torch.tensor([3.0, 4.5])

    assert rel_l2(out, reference) == pytest.approx(0.1)


def test_an_unwritten_element_is_seen_and_never_passes() -> None:
    out = poisoned(4, dtype=torch.bfloat16, device="cpu")
    out[:3] = 1.0

    error = rel_l2(out, torch.ones(4))

    assert math.isnan(error)
    assert not within(error, math.inf)


def test_a_zero_reference_accepts_only_zero() -> None:
    zero = torch.zeros(3)

    assert rel_l2(zero, zero) == 0.0
    assert rel_l2(zero + 1e-30, zero) == math.inf
    assert math.isnan(rel_l2(zero + math.nan, zero))


def test_an_empty_output_is_right() -> None:
    assert rel_l2(torch.empty(0, 8), torch.empty(0, 8)) == 0.0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        rel_l2(torch.ones(2), torch.ones(3))
