"""Fused epilogues: `gelu(x @ W + b) * scale` and `relu(x + y)` in one pass over memory each."""
