from __future__ import annotations

import pytest
import torch

from kernels.moe.routing import KINDS, draw_routing, top_k_routing


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_never_chooses_an_expert_twice(kind: str) -> None:
    ids = draw_routing(kind, 50, 9, 4, seed=2).ids

    for row in ids.tolist():
        valid = [expert for expert in row if expert >= 0]
        assert len(set(valid)) == len(valid)
        assert all(0 <= expert < 9 for expert in valid)


def test_the_same_seed_draws_the_same_routing() -> None:
    first, second, other = (draw_routing("zipf", 30, 8, 2, seed) for seed in (5, 5, 6))

    assert torch.equal(first.ids, second.ids)
    assert not torch.equal(first.ids, other.ids)


def test_the_kinds_are_what_their_names_say() -> None:
    counts = {
        kind: torch.bincount(draw_routing(kind, 600, 6, 2, 0).ids.clamp(min=0).flatten())
        for kind in KINDS
    }

    assert counts["balanced"].tolist() == [200] * 6
    assert (counts["one_hot"] == 600).sum() == 2
    assert counts["zipf"][0] > 2 * counts["zipf"][5]
    assert counts["uniform"].max() < 1.3 * counts["uniform"].min()
    assert (draw_routing("masked", 600, 6, 2, 0).ids == -1).float().mean() == pytest.approx(
        1 / 3, abs=0.05
    )


def test_the_router_keeps_the_largest_and_its_weights_sum_to_one() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0]])

    routed = top_k_routing(logits, 2)

    assert routed.ids.tolist() == [[1, 3]]
    assert routed.weights.sum() == pytest.approx(1.0)


def test_impossible_routings_are_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        draw_routing("uniform", 4, 2, 3, 0)
    with pytest.raises(ValueError, match="is not one of uniform"):
        draw_routing("sideways", 4, 2, 1, 0)
