"""A layer call with random operands, and fresh activations and routing for every round."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.backend import BACKEND
from kernels.moe.reference import moe_reference
from kernels.moe.routing import Routing, draw_routing
from kernels.moe.shapes import Shape

ROUTINGS = 4


@dataclass(frozen=True)
class Problem:
    """Operands in place; `fresh` copies another round's activations and routing over them."""

    shape: Shape
    kind: str
    x: torch.Tensor
    w13: torch.Tensor
    w2: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    inputs: tuple[torch.Tensor, ...]
    routings: tuple[Routing, ...]

    def fresh(self, number: int) -> None:
        chosen = number % len(self.routings)
        self.x.copy_(self.inputs[chosen])
        self.ids.copy_(self.routings[chosen].ids)
        self.weights.copy_(self.routings[chosen].weights)

    def reference(self) -> torch.Tensor:
        """The right output, (T, H) float64, for the operands as they are now."""
        return moe_reference(self.x, self.w13, self.w2, self.ids, self.weights)

    @property
    def active_experts(self) -> int:
        """Experts with at least one row, in the median routing."""
        counts = sorted(len(routing.ids[(routing.ids >= 0)].unique()) for routing in self.routings)
        return counts[len(counts) // 2]


def draw_problem(shape: Shape, kind: str, dtype: torch.dtype, seed: int) -> Problem:
    """Draw operands on the backend's device, scaled so that every layer keeps unit variance."""
    device = BACKEND.device
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
        w13=w13,
        w2=w2,
        ids=first.ids.clone(),
        weights=first.weights.clone(),
        inputs=inputs,
        routings=routings,
    )
