from __future__ import annotations

import math

import pytest
import torch

from kernels.timing import rounds
from kernels.timing.ceilings import measure_ceilings
from kernels.timing.clocks import Clocks, read_clocks
from kernels.timing.evidence import kernel_names, output_hash
from kernels.timing.rounds import Samples, Timed, interleave

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@no_gpu
def test_every_round_times_each_variant_once_in_alternating_order() -> None:
    ran: list[str] = []
    fresh: list[int] = []
    variants = [
        Timed("a", lambda: ran.append("a"), fresh.append),
        Timed("b", lambda: ran.append("b")),
    ]

    results = interleave(variants, rounds=3)

    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert fresh == [0, 1, 2]
    assert {name: len(taken.times_us) for name, taken in results.items()} == {"a": 3, "b": 3}
    assert results["a"].as_timing()["mode"] == "wall"
    assert results["a"].as_timing()["warmup"] == 0


def test_a_ratio_is_paired_by_round() -> None:
    ours = Samples(Timed("ours", lambda: None), "graph", "none", [10.0, 20.0, 40.0])
    peer = Samples(Timed("peer", lambda: None), "graph", "none", [20.0, 40.0, 80.0])

    assert ours.ratio_to(peer) == 0.5
    assert ours.median_us == 20.0
    assert ours.min_us == 10.0


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        interleave([], 0)


class FakeGpu:
    """What the loop asks of torch on a GPU, each call written down."""

    float32 = None

    def __init__(self, did: list[str]) -> None:
        self.did = did
        self.cuda = self

    def is_available(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.did.append("wait")

    def ones(self, *size: object, **kind: object) -> FakeGpu:
        return self

    def sum(self) -> None:
        self.did.append("flush")

    def Event(self, *, enable_timing: bool) -> FakeGpu:  # noqa: N802 - torch's name
        assert enable_timing
        return self

    def record(self) -> None:
        self.did.append("mark")

    def elapsed_time(self, end: object) -> float:
        return 0.25


def test_a_sample_on_a_gpu_is_fresh_cold_and_alone_between_its_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[str] = []
    monkeypatch.setattr(rounds, "torch", FakeGpu(did))
    monkeypatch.setattr(rounds, "flush_bytes", lambda: 16)
    monkeypatch.setattr(rounds, "captured", lambda run: lambda: did.append(f"replay {run()}"))
    monkeypatch.setattr(rounds, "_preheat", lambda replays: did.append("heat"))
    monkeypatch.setattr(rounds, "read_clocks", lambda: Clocks(None, None, None))
    variants = [
        Timed(name, lambda name=name: name, lambda number, name=name: did.append(f"{name}{number}"))
        for name in "ab"
    ]

    results = interleave(variants, rounds=2)

    def sample(name: str, number: int) -> list[str]:
        cold = ["flush"] * rounds.FLUSH_READS
        return [f"{name}{number}", *cold, "mark", f"replay {name}", "mark", "wait"]

    assert rounds.FLUSH_READS > 0
    assert did[did.index("heat") + 1 :] == [
        *sample("a", 0), *sample("b", 0), *sample("b", 1), *sample("a", 1),
    ]  # fmt: skip
    assert results["a"].times_us == [250.0, 250.0]
    assert results["a"].as_timing()["flush"] == "read_4x_l2"


@no_gpu
def test_without_a_gpu_nothing_is_invented() -> None:
    assert read_clocks() == Clocks(None, None, None)
    assert measure_ceilings() is None
    assert kernel_names(lambda: None) == []


def test_equal_bits_hash_equal_and_only_they() -> None:
    x = torch.tensor([0.0, 1.0, math.nan], dtype=torch.bfloat16)

    assert output_hash(x) == output_hash(x.clone())
    assert output_hash(x) != output_hash(-x)
    assert output_hash(x.view(3, 1).expand(3, 2)) == output_hash(x.repeat_interleave(2).view(3, 2))
