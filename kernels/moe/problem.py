"""A layer call with random operands, and fresh activations and routing for every round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from kernels.accuracy import E4M3_PRODUCT_REL_L2_BOUND, REL_L2_BOUND
from kernels.backend import BACKEND, multiplies_e4m3
from kernels.moe.reference import moe_reference
from kernels.moe.routing import Routing, draw_routing
from kernels.moe.scaled import DTYPE as SCALED_DTYPE
from kernels.moe.scaled import BlockScaled, Weights, quantise_blocks
from kernels.moe.shapes import Shape

ROUTINGS = 4


@dataclass(frozen=True)
class Problem:
    """Operands in place; `fresh` copies another round's activations and routing over them.

    `full` are the weights that block-scaled ones were rounded from, None for others.
    """

    shape: Shape
    kind: str
    x: torch.Tensor
    w13: Weights
    w2: Weights
    ids: torch.Tensor
    weights: torch.Tensor
    inputs: tuple[torch.Tensor, ...]
    routings: tuple[Routing, ...]
    full: tuple[torch.Tensor, torch.Tensor] | None = None

    def fresh(self, number: int) -> None:
        chosen = number % len(self.routings)
        self.x.copy_(self.inputs[chosen])
        self.ids.copy_(self.routings[chosen].ids)
        self.weights.copy_(self.routings[chosen].weights)

    def reference(self) -> torch.Tensor:
        """The right output, (T, H) float64, for the operands as they are now."""
        return moe_reference(self.x, self.w13, self.w2, self.ids, self.weights)

    @property
    def scaled(self) -> bool:
        return isinstance(self.w13, BlockScaled)

    @property
    def bound(self) -> float:
        """Relative L2 error that the layer's output may have against `reference`."""
        if self.scaled and multiplies_e4m3(self.x.device):
            return E4M3_PRODUCT_REL_L2_BOUND
        return REL_L2_BOUND[self.x.dtype]

    @property
    def product_rate(self) -> int:
        """Products' rate as a multiple of the 16-bit one: 2 on tensor cores that take e4m3."""
        return 2 if self.scaled and multiplies_e4m3(self.x.device) else 1

    @property
    def weight_bytes(self) -> float:
        """Bytes that a weight takes, its share of a block's scale included."""
        w13 = self.w13
        if isinstance(w13, BlockScaled):
            return 1 + w13.scales.numel() * w13.scales.itemsize / w13.values.numel()
        return w13.itemsize

    def unquantised(self) -> Problem:
        """The same call on the weights before rounding; itself where nothing was rounded.

        Activations and routing are the same tensors, so `fresh` reaches both.
        """
        if self.full is None:
            return self
        return replace(self, w13=self.full[0], w2=self.full[1], full=None)

    @property
    def active_experts(self) -> int:
        """Experts with at least one row, in the median routing."""
        counts = sorted(len(routing.ids[(routing.ids >= 0)].unique()) for routing in self.routings)
        return counts[len(counts) // 2]


def draw_problem(shape: Shape, kind: str, dtype: torch.dtype, seed: int) -> Problem:
    """Draw operands on the backend's device, scaled so that every layer keeps unit variance.

    For float8_e4m3fn activations are bfloat16, and weights drawn so and rounded with block scales.
    """
    device = BACKEND.device
    scaled = dtype == SCALED_DTYPE
    if scaled:
        dtype = torch.bfloat16
    draw = torch.Generator(device=device).manual_seed(seed)

    def normal(*size: int, scale: float = 1.0) -> torch.Tensor:
        drawn = torch.empty(size, dtype=dtype, device=device)
        return drawn.normal_(0.0, scale, generator=draw)

    w13 = normal(shape.experts, 2 * shape.inter, shape.hidden, scale=shape.hidden**-0.5)
    w2 = normal(shape.experts, shape.hidden, shape.inter, scale=shape.inter**-0.5)
    inputs = tuple(normal(shape.tokens, shape.hidden) for _ in range(ROUTINGS))
    routings = tuple(
        draw_routing(kind, shape.tokens, shape.experts, shape.top_k, seed + number, device)
        for number in range(ROUTINGS)
    )
    first = routings[0]
    return Problem(
        shape,
        kind,
        x=inputs[0].clone(),
        w13=quantise_blocks(w13) if scaled else w13,
        w2=quantise_blocks(w2) if scaled else w2,
        ids=first.ids.clone(),
        weights=first.weights.clone(),
        inputs=inputs,
        routings=routings,
        full=(w13, w2) if scaled else None,
    )
