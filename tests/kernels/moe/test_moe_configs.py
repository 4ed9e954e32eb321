from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.moe import configs
from kernels.moe.configs import Entry, HopperConfig, PortableConfig, choose, load, save
from kernels.moe.shapes import NAMED, Shape
from kernels.moe.workspace import unsuited

HOPPER_PROBLEMS = """
from kernels.moe.configs import HopperConfig, default_hopper, load
from kernels.moe.hopper.launch import HopperTile
tried = [entry.config for entry in load() if isinstance(entry.config, HopperConfig)]
tried += [default_hopper(rows) for rows in (1, 20, 500)]
for config in tried:
    tile = HopperTile(config.body, config.tail, config.stages, config.producer_registers)
    assert tile.problem() is None, (config, tile.problem())
assert HopperTile(128, 64, 5, 48).problem(), "five stages of 128-row bodies cannot fit"
assert HopperTile(128, 48, 4, 48).problem(), "a tail of 48 has no layout"
assert HopperTile(128, 32, 1, 48).problem(), "a ring of one never goes on"
print(len(tried))
"""


def entry(tokens: tuple[int, int], config: configs.Config) -> Entry:
    shape = NAMED["a"]
    return Entry(
        "NVIDIA H200", "bfloat16", shape.top_k, shape.experts, shape.hidden, shape.inter,
        tokens, config, "3.6.0", "a test",
    )  # fmt: skip


def test_the_table_survives_a_round_trip(tmp_path: Path) -> None:
    rows = (
        entry((1, 10), HopperConfig(late=2)),
        entry((11, 20), PortableConfig()),
    )

    save(rows, tmp_path / "table.json")

    assert load(tmp_path / "table.json") == rows


def test_the_recorded_table_can_be_read() -> None:
    assert len(load()) >= 8


@pytest.mark.parametrize(
    "damage", [{"config": {"path": "sideways"}}, {"config": {"path": "hopper", "bodi": 1}}]
)
def test_a_wrong_entry_is_named(damage: dict[str, object], tmp_path: Path) -> None:
    save((entry((1, 10), HopperConfig()),), tmp_path / "table.json")
    rows = json.loads((tmp_path / "table.json").read_text("utf-8"))
    (tmp_path / "table.json").write_text(json.dumps([rows[0] | damage]), "utf-8")

    with pytest.raises(ValueError, match="entry 0"):
        load(tmp_path / "table.json")


def test_an_entry_applies_inside_its_range_only() -> None:
    row = entry((1025, 4095), HopperConfig())

    applies = [
        row.applies("NVIDIA H200", "bfloat16", Shape(tokens, 8, 64, 4096, 768))
        for tokens in (1024, 1025, 4095, 4096)
    ]

    assert applies == [False, True, True, False]
    assert not row.applies("NVIDIA H100", "bfloat16", NAMED["a"])
    assert not row.applies("NVIDIA H200", "float16", NAMED["a"])
    assert not row.applies("NVIDIA H200", "bfloat16", NAMED["c"])


def test_without_hopper_the_choice_is_portable() -> None:
    chosen = choose(NAMED["a"], torch.bfloat16, torch.device("cpu"), hopper=False)

    assert isinstance(chosen, PortableConfig)


def test_block_scaled_weights_have_entries_and_a_rule_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bf16 = replace(entry((1025, 4095), PortableConfig(64, 64, 32)), device="cpu")
    fp8 = replace(bf16, dtype="float8_e4m3fn", config=PortableConfig(64, 128, 128, 8, 3))
    cpu, shape = torch.device("cpu"), NAMED["a"]
    monkeypatch.setattr(configs, "_table", lambda: (bf16, fp8))

    inside = choose(shape, torch.float8_e4m3fn, cpu, hopper=False)
    outside = choose(replace(shape, tokens=10), torch.float8_e4m3fn, cpu, hopper=False)

    assert inside == fp8.config
    assert choose(shape, torch.bfloat16, cpu, hopper=False) == bf16.config
    assert outside == PortableConfig(16, 128, 64)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("rows", [1, 16, 17, 4096])
def test_the_rule_for_block_scaled_weights_gives_what_the_kernels_take(
    rows: int, aligned: bool, on_gpu: bool, native: bool
) -> None:
    chosen = configs.default_scaled(rows, on_gpu=on_gpu, native=native, aligned=aligned)

    assert unsuited(chosen, scaled=True) is None


def test_rows_read_byte_by_byte_get_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    gpu = torch.device("cuda")

    rows = {
        hidden: choose(Shape(4096, 8, 8, hidden, 768), torch.float8_e4m3fn, gpu, hopper=True).rows
        for hidden in (1000, 1008)
    }

    assert rows == {1000: 16, 1008: 64}


def test_tiles_grow_with_the_rows_of_an_expert() -> None:
    chosen = [configs.default_hopper(rows) for rows in (4, 32, 256, 512)]

    assert [(each.body, each.tail) for each in chosen] == [
        (64, 16),
        (64, 32),
        (128, 32),
        (128, 64),
    ]


def test_every_hopper_variant_fits_the_device(root: Path) -> None:
    pytest.importorskip("triton", reason="Triton has no build for this platform")

    done = subprocess.run(
        [sys.executable, "-c", HOPPER_PROBLEMS],
        cwd=root, env={**_environment(), "KERNELS_BACKEND": "compile_only"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 11


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
