"""The child of `checkpoint.py`: SOURCE.pt in, TARGET/tensors.safetensors and values.json out.

Exit codes: 3 torch is not installed; 4 the file was refused, with the reason on the last line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_MOST_DEPTH = 100


def main(source: str, target: str) -> int:
    try:
        import torch
        from safetensors.torch import save_file
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    try:
        held = torch.load(source, map_location="cpu", weights_only=True)
        tensors: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for name, item in _leaves(held, "", 0):
            if isinstance(item, torch.Tensor):
                # safetensors refuses tensors that share memory.
                tensors[name] = item.detach().to_dense().contiguous().clone()
            else:
                values[name] = item
        save_file(tensors, str(Path(target) / "tensors.safetensors"))
        (Path(target) / "values.json").write_text(json.dumps(values), "utf-8")
    except Exception as error:  # noqa: BLE001 - whatever an untrusted file causes is its refusal
        sys.stderr.write(f"{type(error).__name__}: {_reason(str(error))}\n")
        return 4
    return 0


def _reason(text: str) -> str:
    """What torch says is wrong, without its advice to load the file with all its code."""
    words = " ".join(text.split())
    found = re.search(
        r"WeightsUnpickler error: (.*?)(?: was not an allowed global|\.? Please|$)", words
    )
    return (found[1] if found else words)[:200]


def _leaves(item: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Every tensor and plain value with its dotted path."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"nested deeper than {_MOST_DEPTH}")
    if isinstance(item, Mapping):
        for key, inner in item.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(item, (list, tuple)):
        for index, inner in enumerate(item):
            yield from _leaves(inner, f"{path}[{index}]", depth + 1)
    elif item is None or isinstance(item, (bool, int, float, str)):
        yield path or "value", item
    elif hasattr(item, "dtype") and hasattr(item, "shape"):
        yield path or "tensor", item
    else:
        yield path or "value", f"<{type(item).__name__}>"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
