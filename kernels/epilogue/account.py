"""Bytes through device memory, counted: each operand of each kernel once, each output once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """Bytes of the fused kernel and of the eager chain for the same operator."""

    fused_bytes: int
    eager_bytes: int

    @property
    def ratio(self) -> float:
        return self.fused_bytes / self.eager_bytes


def gelu_linear_traffic(M: int, N: int, K: int, itemsize_bytes: int) -> Traffic:
    """Traffic of `gelu(x @ W + b) * scale`; eager adds three round trips of the (M, N) result."""
    inputs = M * K + K * N + N
    result = M * N
    round_trips = 3
    fused = inputs + result
    eager = fused + round_trips * 2 * result
    return Traffic(fused * itemsize_bytes, eager * itemsize_bytes)


def add_relu_traffic(elements: int, itemsize_bytes: int) -> Traffic:
    """Traffic of `relu(x + y)`: three passes fused, five in two kernels."""
    return Traffic(3 * elements * itemsize_bytes, 5 * elements * itemsize_bytes)
