"""Random operands of one layer call, and how far its output may lie from float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.accuracy import poisoned, rel_l2
from kernels.backend import BACKEND
from kernels.moe.configs import PortableConfig
from kernels.moe.layer import moe
from kernels.moe.reference import moe_reference
from kernels.moe.routing import Routing, draw_routing
from kernels.moe.shapes import Shape

DEVICE = BACKEND.device
SMALL = PortableConfig(16, 16, 16)


@dataclass(frozen=True)
class Operands:
    x: torch.Tensor
    w13: torch.Tensor
    w2: torch.Tensor
    routing: Routing

    def run(self, **options: object) -> torch.Tensor:
        out = poisoned(*self.x.shape, dtype=self.x.dtype, device=DEVICE)
        return moe(
            self.x, self.w13, self.w2, self.routing.ids, self.routing.weights,
            **({"config": SMALL, "out": out} | options),  # type: ignore[arg-type]
        )  # fmt: skip

    def error(self, out: torch.Tensor) -> float:
        ids, weights = self.routing.ids, self.routing.weights
        return rel_l2(out, moe_reference(self.x, self.w13, self.w2, ids, weights))

    def distance(self, out: torch.Tensor) -> torch.Tensor:
        ids, weights = self.routing.ids, self.routing.weights
        return (out.double() - moe_reference(self.x, self.w13, self.w2, ids, weights)).abs()

    def rounding(self) -> torch.Tensor:
        """What three roundings may cost each element at most, sums and subnormals with room.

        A relative L2 error is no measure for a few elements, which may cancel.
        """
        unit = torch.finfo(self.x.dtype).eps / 2
        if self.x.dtype == torch.float32:
            unit = 3e-6  # not roundings but the order of its sums
        magnitude = torch.zeros(self.x.shape, dtype=torch.float64, device=DEVICE)
        for expert in range(self.w13.shape[0]):
            tokens, choices = torch.where(self.routing.ids == expert)
            products = self.x[tokens].double() @ self.w13[expert].double().t()
            gate, up = products.chunk(2, dim=1)
            hidden = (torch.nn.functional.silu(gate) * up).abs()
            rows = hidden @ self.w2[expert].double().abs().t()
            weights = self.routing.weights[tokens, choices, None].double().abs()
            magnitude.index_add_(0, tokens, rows * weights)
        return 3.1 * unit * magnitude + 1e-6


def operands(
    shape: Shape, kind: str = "uniform", dtype: torch.dtype = torch.float32, seed: int = 0
) -> Operands:
    draw = torch.Generator().manual_seed(seed)

    def normal(*size: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(size, generator=draw) * scale).to(DEVICE, dtype)

    return Operands(
        normal(shape.tokens, shape.hidden),
        normal(shape.experts, 2 * shape.inter, shape.hidden, scale=shape.hidden**-0.5),
        normal(shape.experts, shape.hidden, shape.inter, scale=shape.inter**-0.5),
        draw_routing(kind, shape.tokens, shape.experts, shape.top_k, seed, DEVICE),
    )
