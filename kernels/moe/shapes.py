"""Layer sizes with names, and what any implementation of them must at least do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """One layer call: T tokens, k of E experts each, H hidden and I intermediate columns."""

    tokens: int
    top_k: int
    experts: int
    hidden: int
    inter: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of the three projections, without padding."""
        return 6 * self.tokens * self.top_k * self.hidden * self.inter

    def bytes_moved(
        self, active_experts: int, itemsize_bytes: int, weight_bytes: float | None = None
    ) -> float:
        """Weights of the active experts, activations in and out, each once.

        A weight takes `weight_bytes`, as much as an activation when not given.
        """
        weights = 3 * active_experts * self.hidden * self.inter
        activations = 2 * self.tokens * self.hidden * itemsize_bytes
        return weights * (itemsize_bytes if weight_bytes is None else weight_bytes) + activations

    def floor_us(
        self,
        active_experts: int,
        itemsize_bytes: int,
        flops_per_s: float,
        bytes_per_s: float,
        weight_bytes: float | None = None,
    ) -> float:
        """The longer of computing and moving at the given ceilings, in microseconds."""
        computing_s = self.flops / flops_per_s
        moving_s = self.bytes_moved(active_experts, itemsize_bytes, weight_bytes) / bytes_per_s
        return max(computing_s, moving_s) * 1e6


NAMED = {
    "a": Shape(2048, 8, 64, 4096, 768),
    "b": Shape(4096, 8, 64, 4096, 768),
    "c": Shape(2048, 8, 128, 4096, 768),
    "d": Shape(2048, 8, 256, 4096, 768),
    "mixtral_tp4": Shape(4096, 2, 8, 4096, 3584),
    "qwen3_30b": Shape(4096, 8, 128, 2048, 768),
    "decode64": Shape(64, 8, 128, 4096, 768),
    "deepseek_v3_tp8_16": Shape(16, 8, 256, 7168, 256),
    "tiny": Shape(24, 2, 6, 128, 64),
}
