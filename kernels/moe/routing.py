"""Which experts each token goes to: the router's top-k, and synthetic routings."""

from __future__ import annotations

from dataclasses import dataclass

import torch

KINDS = ("uniform", "zipf", "one_hot", "balanced", "masked")


@dataclass(frozen=True)
class Routing:
    """Expert ids (T, k) int32 and their weights (T, k) float32; ids outside [0, E) are dropped."""

    ids: torch.Tensor
    weights: torch.Tensor

    @property
    def tokens(self) -> int:
        return self.ids.shape[0]

    @property
    def top_k(self) -> int:
        return self.ids.shape[1]


def top_k_routing(logits: torch.Tensor, top_k: int) -> Routing:
    """Choose the `top_k` largest of (T, E) logits; weights are their softmax, renormalised."""
    chosen = torch.topk(logits.float(), top_k, dim=1)
    return Routing(chosen.indices.int(), torch.softmax(chosen.values, dim=1))


def draw_routing(
    kind: str, tokens: int, experts: int, top_k: int, seed: int, device: str | torch.device = "cpu"
) -> Routing:
    """Draw a synthetic routing of distinct experts per token.

    uniform: every expert equally likely; zipf: expert e with weight 1 / (e + 1); one_hot: all
    tokens go to the same `top_k` experts; balanced: every expert gets as many, to within one;
    masked: uniform with a third of the choices set to -1, as another rank's experts are.
    """
    if kind not in KINDS:
        raise ValueError(f"routing `{kind}` is not one of {', '.join(KINDS)}")
    if top_k > experts:
        raise ValueError(f"top-k {top_k} of {experts} experts: a token cannot choose one twice")
    draw = torch.Generator().manual_seed(seed)
    if kind == "balanced":
        ids = torch.arange(tokens * top_k).view(tokens, top_k) % experts
    elif kind == "one_hot":
        ids = torch.randperm(experts, generator=draw)[:top_k].expand(tokens, top_k)
    elif kind == "zipf":
        odds = 1.0 / torch.arange(1, experts + 1, dtype=torch.float64)
        ids = _without_replacement(odds.expand(tokens, experts), top_k, draw)
    else:
        ids = _without_replacement(torch.ones(tokens, experts), top_k, draw)
    weights = torch.softmax(torch.randn(tokens, top_k, generator=draw), dim=1)
    if kind == "masked":
        ids = torch.where(torch.rand(tokens, top_k, generator=draw) < 1 / 3, -1, ids)
    return Routing(ids.int().contiguous().to(device), weights.contiguous().to(device))


def _without_replacement(odds: torch.Tensor, top_k: int, draw: torch.Generator) -> torch.Tensor:
    """Sample `top_k` distinct columns a row with the given odds (exponential race)."""
    if not odds.numel():
        return torch.empty(odds.shape[0], top_k, dtype=torch.int64)
    race = torch.empty(odds.shape).exponential_(generator=draw)
    return torch.topk(race / odds, top_k, dim=1, largest=False).indices
