"""Macros where the CUDA grammar expects a specifier, overwritten by blanks of equal length."""

from __future__ import annotations

import re
from functools import lru_cache

# Macros that stand for specifiers in widely used header families, and attributes the grammar lacks.
_FAMILIES = "CUTLASS|CUTE|TK|FLASHINFER|TORCH|C10|AT|CUB|THRUST|RAFT|MSCCLPP|NVSHMEMI?"
_SPECIFIERS = (
    "DEVICE|HOST|HOST_DEVICE|GLOBAL|API|CUDA_API|INLINE|RUNTIME_FUNCTION|HOST_RUNTIME_FUNCTION"
    "|DETAIL_KERNEL_ATTRIBUTES|KERNEL_ATTRIBUTES|DEVICE_ALWAYS_INLINE"
)
_ATTRIBUTES = "__align__|__maxnreg__|__cluster_dims__|__block_size__|__attribute__"
DEFAULT_MACROS = (
    rf"(?:{_FAMILIES})_(?:{_SPECIFIERS})\b",
    r"(?:__forceinline__|__noinline__|__grid_constant__|__inline__|__restrict__|__restrict)\b",
    rf"(?:{_ATTRIBUTES})\s*\((?:[^()]|\([^()]*\))*\)",
    r"\bC10_LAUNCH_BOUNDS_[012]\s*\([^()]*\)",
)


def blank_macros(data: bytes, macros: tuple[str, ...] = ()) -> bytes:
    """Overwrite specifier macros by spaces of equal length, newlines kept."""
    words = [rf"\b(?:{name})(?!\w)" for name in macros]
    pattern = _macro_pattern((*DEFAULT_MACROS, *words))
    return pattern.sub(lambda match: re.sub(rb"[^\r\n]", b" ", match.group()), data)


@lru_cache(maxsize=8)
def _macro_pattern(parts: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile("|".join(f"(?:{part})" for part in parts).encode())
