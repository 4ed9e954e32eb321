"""The measuring loop: variants interleaved in rounds, each sample from a cold L2 on a warm card.

Two variants timed one after the other differ by the card's boost state (3-12 % were seen on one
H200), so every round times every variant once, forwards and backwards in turn, after pre-heating.
Each sample gets fresh inputs, copied into the buffers that a captured graph reads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels.timing.clocks import Clocks, read_clocks

WARM_UP_RUNS = 3
PREHEAT_S = 3.0
"""An H200 drew 500 W after 0.6 s of these kernels and 690 W, its limit, after 3 s: until then
clocks fall, and what they bound takes up to 12 % longer."""
FLUSH_READS = 3
"""Reads of four times the L2 before a sample. One leaves nothing of the working set; three take
150 us there, in which the host queues the launch: its delay would be counted otherwise."""


def nothing_fresh(number: int) -> None:
    """For variants whose inputs stay."""


@dataclass(frozen=True)
class Timed:
    """Something to time.

    Attributes:
        name: unique in its group.
        run: launches the work on the current stream.
        fresh: copies the inputs of round `number` into place; not timed.
        graph: whether to capture `run` in a CUDA graph and time its replay.
        includes: what the time counts, for the record.
    """

    name: str
    run: Callable[[], Any]
    fresh: Callable[[int], None] = nothing_fresh
    graph: bool = True
    includes: tuple[str, ...] = ()


@dataclass
class Samples:
    """Times of one variant in microseconds, in measured order, and the conditions of each."""

    timed: Timed
    mode: str
    flush: str
    times_us: list[float] = field(default_factory=list)
    clocks: list[Clocks] = field(default_factory=list)

    @property
    def median_us(self) -> float:
        return statistics.median(self.times_us)

    @property
    def min_us(self) -> float:
        return min(self.times_us)

    def ratio_to(self, other: Samples) -> float:
        """Median over rounds of this time by the other's: what both share in a round cancels."""
        pairs = zip(self.times_us, other.times_us, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    def as_timing(self) -> dict[str, Any]:
        """How it was measured, in the words of the result schema."""
        return {
            "mode": self.mode,
            "flush": self.flush,
            "warmup": 0 if self.mode == "wall" else WARM_UP_RUNS,
            "inner": 1,
            "includes": list(self.timed.includes),
            "clocks": [reading.as_dict() for reading in self.clocks],
        }


def interleave(variants: Sequence[Timed], rounds: int) -> dict[str, Samples]:
    """Time every variant once a round; on a CPU by wall clock, without graphs or flush."""
    if rounds < 1:
        raise ValueError(f"{rounds} rounds: at least one is needed")
    if torch.cuda.is_available():
        return _on_gpu(variants, rounds)
    return _on_cpu(variants, rounds)


def flush_bytes() -> int:
    """Four times the L2: reading as much leaves none of the working set, and no dirty lines."""
    return 4 * torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size


def _on_gpu(variants: Sequence[Timed], rounds: int) -> dict[str, Samples]:
    flush = torch.ones(flush_bytes() // 4, dtype=torch.float32, device="cuda")
    replays = {}
    for timed in variants:
        timed.fresh(0)
        for _ in range(WARM_UP_RUNS):
            timed.run()
        torch.cuda.synchronize()
        replays[timed.name] = captured(timed.run) if timed.graph else timed.run
    results = {
        timed.name: Samples(timed, "graph" if timed.graph else "eager", "read_4x_l2")
        for timed in variants
    }
    _preheat(list(replays.values()))
    for number in range(rounds):
        for timed in variants if number % 2 == 0 else reversed(variants):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            timed.fresh(number)
            for _ in range(FLUSH_READS):
                flush.sum()
            begin.record()
            replays[timed.name]()
            end.record()
            torch.cuda.synchronize()
            results[timed.name].times_us.append(begin.elapsed_time(end) * 1e3)
            results[timed.name].clocks.append(read_clocks())
    return results


def captured(run: Callable[[], Any]) -> Callable[[], None]:
    """The replay of a CUDA graph of `run`, which must have run before."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def _preheat(replays: Sequence[Callable[[], Any]]) -> None:
    until = time.perf_counter() + PREHEAT_S
    while time.perf_counter() < until:
        for replay in replays:
            replay()
        torch.cuda.synchronize()


def _on_cpu(variants: Sequence[Timed], rounds: int) -> dict[str, Samples]:
    results = {timed.name: Samples(timed, "wall", "none") for timed in variants}
    for number in range(rounds):
        for timed in variants if number % 2 == 0 else reversed(variants):
            timed.fresh(number)
            begin = time.perf_counter()
            timed.run()
            results[timed.name].times_us.append((time.perf_counter() - begin) * 1e6)
    return results
