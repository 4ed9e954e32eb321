"""What the two operators mean, and how eager PyTorch runs them."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu


def eager_gelu_linear(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, scale: float
) -> torch.Tensor:
    """`gelu(x @ w + b) * scale` as four kernels; x (M, K), w (K, N), b (N,) -> (M, N)."""
    return gelu(x @ w + b) * scale


def eager_add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`relu(x + y)` as two kernels, any equal shapes."""
    return torch.relu(x + y)


def exact_gelu_linear(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, scale: float
) -> torch.Tensor:
    """The same in float64 from the inputs as they were rounded: the truth a kernel is held to."""
    return eager_gelu_linear(x.double(), w.double(), b.double(), scale)


def exact_add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`relu(x + y)` in float64."""
    return eager_add_relu(x.double(), y.double())
