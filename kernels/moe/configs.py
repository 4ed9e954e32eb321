"""Which variant runs a given layer: a measured table, and a safe rule outside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernels.backend import multiplies_e4m3
from kernels.moe.plan import Cut
from kernels.moe.shapes import Shape

TABLE = Path(__file__).with_name("configs.json")


@dataclass(frozen=True)
class PortableConfig:
    """Tile sizes and launch options of the portable kernels."""

    rows: int = 64
    columns: int = 64
    inner: int = 32
    warps: int = 4
    stages: int = 3

    @property
    def cut(self) -> Cut:
        return Cut(self.rows)


@dataclass(frozen=True)
class HopperConfig:
    """A variant of the Hopper kernel and of the table it runs: `HopperTile`, `Cut`, `Work`."""

    body: int = 128
    tail: int = 32
    stages: int = 4
    producer_registers: int = 48
    wide: bool = False
    late: int = 1
    group: int = 2

    @property
    def cut(self) -> Cut:
        return Cut(self.body, self.tail, self.wide)


Config = PortableConfig | HopperConfig


@dataclass(frozen=True)
class Entry:
    """One measured row of the table: where it applies, what to run, and what proved it."""

    device: str
    dtype: str
    top_k: int
    experts: int
    hidden: int
    inter: int
    tokens: tuple[int, int]
    config: Config
    triton: str
    evidence: str

    def applies(self, device: str, dtype: str, shape: Shape) -> bool:
        mine = (self.device, self.dtype, self.top_k, self.experts, self.hidden, self.inter)
        asked = (device, dtype, shape.top_k, shape.experts, shape.hidden, shape.inter)
        return mine == asked and self.tokens[0] <= shape.tokens <= self.tokens[1]


def load(path: Path = TABLE) -> tuple[Entry, ...]:
    """Read the table. Raises ValueError for an entry that does not say what it must."""
    return tuple(_entry(row, at) for at, row in enumerate(json.loads(path.read_text("utf-8"))))


def save(entries: tuple[Entry, ...], path: Path = TABLE) -> None:
    """Write the table.

    Raises:
        OSError: it cannot be written.
    """
    path.write_text(as_text(entries), "utf-8")


def as_text(entries: tuple[Entry, ...]) -> str:
    """The table as it is written, one entry a line, so that a change is a readable diff."""
    rows = ",\n  ".join(json.dumps(_row(entry)) for entry in entries)
    return f"[\n  {rows}\n]\n" if rows else "[]\n"


def choose(shape: Shape, dtype: torch.dtype, device: torch.device, *, hopper: bool) -> Config:
    """The variant for a layer: the first entry that applies, else the rule for rows an expert.

    `dtype` is that of the weights: block-scaled ones have entries and a rule of their own.
    `hopper` says whether the operands suit the Hopper kernel; without it only portable ones count.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    for entry in _table():
        suits = hopper or isinstance(entry.config, PortableConfig)
        if suits and entry.applies(name, str(dtype).removeprefix("torch."), shape):
            return entry.config
    rows = shape.tokens * shape.top_k / max(shape.experts, 1)
    if dtype == torch.float8_e4m3fn:
        return default_scaled(
            rows,
            on_gpu=device.type == "cuda",
            native=multiplies_e4m3(device),
            aligned=not (shape.hidden % 16 or shape.inter % 16),
        )
    if hopper:
        return default_hopper(rows)
    return default_portable(rows, on_gpu=device.type == "cuda")


def default_hopper(rows_per_expert: float) -> HopperConfig:
    """Few rows: 64-row bodies and weights as the M operand of short tails; else 128-row bodies.

    From some 400 rows on, 192-row tiles wherever one saves a tile: 1 to 3 % faster there on an
    H200, from 0.4 % faster to 1.1 % slower at 256 rows, and 2.5 % slower at 128.
    """
    if rows_per_expert <= 12:
        return HopperConfig(64, 16, 5, 48)
    if rows_per_expert <= 40:
        return HopperConfig(64, 32, 5, 48)
    if rows_per_expert < 400:
        return HopperConfig()
    return HopperConfig(128, 64, 4, 56, wide=True)


def default_portable(rows_per_expert: float, *, on_gpu: bool) -> PortableConfig:
    """Tiles no larger than an expert's rows need; two stages fit 64 KiB of shared memory."""
    if not on_gpu:
        return PortableConfig(16, 32, 32)
    if rows_per_expert <= 16:
        return PortableConfig(16, 64, 64, stages=2)
    if rows_per_expert <= 64:
        return PortableConfig(64, 64, 32, stages=2)
    return PortableConfig(128, 64, 32, 8, 2)


def default_scaled(
    rows_per_expert: float, *, on_gpu: bool, native: bool, aligned: bool = True
) -> PortableConfig:
    """Variants of the block-scaled kernels that do not spill on sm_90 and gfx942.

    A tile has 128 columns, whole groups of the hidden rows. Where operands are widened before each
    product (not `native`), 128 inner columns take more registers than there are; where rows do not
    begin at multiples of 16 bytes (not `aligned`), so do loads byte by byte of more than 32.
    """
    inner = 128 if native else 64
    if not on_gpu:
        return PortableConfig(16, 128, inner)
    if not aligned:
        return PortableConfig(16, 128, 32, 8, 2)
    if rows_per_expert <= 16:
        return PortableConfig(16, 128, inner, stages=2)
    return PortableConfig(64, 128, inner, 8, 2)


@cache
def _table() -> tuple[Entry, ...]:
    return load()


def _entry(row: dict[str, Any], at: int) -> Entry:
    try:
        options = dict(row["config"])
        path = options.pop("path")
        if path == "hopper":
            config: Config = HopperConfig(**options)
        elif path == "portable":
            config = PortableConfig(**options)
        else:
            raise ValueError(f"path `{path}` is not hopper or portable")
        low, high = row["tokens"]
        rest = {key: row[key] for key in row if key not in ("config", "tokens")}
        return Entry(config=config, tokens=(low, high), **rest)
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"{TABLE.name}: entry {at}: {wrong}") from wrong


def _row(entry: Entry) -> dict[str, Any]:
    row = asdict(entry)
    path = "hopper" if isinstance(entry.config, HopperConfig) else "portable"
    return {**row, "config": {"path": path, **row["config"]}}
