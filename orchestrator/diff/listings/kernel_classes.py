"""What a GPU kernel does, told by its name: a table with a version.

Names change with every release of the libraries that own them; a name that no row knows is
`unknown` and is listed, never filed under a default.
"""

from __future__ import annotations

import re
from functools import lru_cache

VERSION = 1
UNKNOWN = "unknown"

_COMMUNICATION = (
    r"[nrh]ccl|oneccl|nvshmem|deep_?ep|multimem|device_reduce|all_?(?:reduce|gather|to_?all)"
    r"|reduce_?scatter"
)

# The first row that fits holds. Communication comes first: a fused kernel that also multiplies is
# of interest for what it sends.
TABLE: tuple[tuple[str, str], ...] = (
    ("communication", _COMMUNICATION),
    (
        "memory copy",
        r"^\[?(?:cuda|hip)?memcpy|memcpy ?(?:dtod|htod|dtoh|ptop)|copy_kernel|batchedcopy",
    ),
    ("memory set", r"^\[?(?:cuda|hip)?memset|fillfunctor|fill_kernel"),
    ("attention", r"flash|fmha|attention|\bmha\b|paged_kv|\bmla\b"),
    ("mixture of experts", r"moe|expert|topk_gating|group(?:ed)?_?gemm.*scatter"),
    (
        "matrix multiplication",
        r"gemm|gemv|cublas|xmma|nvjet|matmul|split_?k|cijk_|wgmma|_mm_kernel|\bmm_kernel|triton_tem",
    ),
    ("convolution", r"conv|wgrad|dgrad|winograd"),
    ("normalisation", r"layer_?norm|rms_?norm|batch_?norm|group_?norm"),
    ("softmax", r"softmax"),
    ("sorting", r"sort|topk|radix|scan|cumsum|histogram"),
    ("reduction", r"reduce|reduction|triton_(?:red|per)_"),
    ("indexing", r"index|gather|scatter|embedding"),
    ("random numbers", r"philox|distribution|dropout|random|curand"),
    (
        "elementwise",
        r"elementwise|pointwise|vectorized|triton_poi_|silu|gelu|relu|activation|rotary|cast",
    ),
)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(text, re.IGNORECASE)) for name, text in TABLE)


def class_of(name: str) -> str:
    """The class of a kernel, or `unknown`."""
    return next((found for found, pattern in _patterns() if pattern.search(name)), UNKNOWN)


def folded(name: str) -> str:
    """A demangled name without template arguments, parameters and return type."""
    kept, depth = [], 0
    for char in name:
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif depth == 0:
            kept.append(char)
    bare = "".join(kept).replace("(anonymous namespace)", "{anonymous}")
    return bare.split("(", 1)[0].removeprefix("void ").strip() or name
