"""Fused epilogues: `gelu(x @ W + b) * scale` and `relu(x + y)` in one pass over memory each."""

from kernels.backend import BACKEND as BACKEND
