"""The kernel's hand-overs hold in every order of events, and the model sees it when they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.moe.ring_model import FAULTS, Ring
from tests.kernels.moe.ring_search import search

RINGS = [
    Ring(),
    Ring(stages=3, tail_stages=2, items=(3, 2)),
    Ring(stages=3, tail_stages=3, items=(1, 0, 0, 1, 3)),
    Ring(stages=4, tail_stages=2, items=(3, 0, 3)),
    Ring(stages=4, tail_stages=3, items=(5,)),
    Ring(stages=2, mail=1, items=(1, 0, 1)),
]


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_no_order_of_events_spoils_a_slot_or_stops_everybody(ring: Ring) -> None:
    states, wrong = search(ring)

    assert wrong == []
    assert states > 1000


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    """A shorter ring of tails is waited for besides, which covers for some of the other waits."""
    equal, shorter = (search(replace(ring, fault=fault))[1] for ring in RINGS[:2])

    assert equal or shorter


@pytest.mark.parametrize(("stages", "tail_stages"), [(1, 1), (2, 1), (3, 1)])
def test_a_ring_of_one_stops_everybody(stages: int, tail_stages: int) -> None:
    """A step is released while the next one multiplies: the next must have been loaded by then."""
    _, wrong = search(Ring(stages, tail_stages, items=(2,)))

    assert [text.partition(":")[0] for text in wrong] == ["nobody can go on"]
