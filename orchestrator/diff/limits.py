"""How much one comparison may take: time, memory, and what is worth showing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of one pair; a pair that exceeds one of them is `skipped` with the reason."""

    deadline_s: float = 60.0
    memory_bytes: int = 2 << 30
    """Memory of the reading process, kept by the kernel where it can (Linux)."""
    text_bytes: int = 512 << 20
    document_bytes: int = 256 << 20
    yaml_bytes: int = 8 << 20
    table_bytes: int = 512 << 20
    unpacked_bytes: int = 8 << 30
    """Most bytes that a packed file may become."""
    image_pixels: int = 64 << 20
    nodes: int = 5_000_000
    """Most values of a document that are looked at; aliases of YAML can make more than fit."""
    locations: int = 10
    children: int = 100


DEFAULT = Limits()
