"""For each type: equal, within, different, one side only, unreadable, too large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.diff import artifacts
from orchestrator.diff.confined import Confined
from orchestrator.diff.sides.resolve import resolve
from orchestrator.spec.compare import CompareRule
from tests.diff import makers
from tests.diff.conftest import Compare

try:
    import torch
except ModuleNotFoundError:  # an extra that a laptop need not have; its cases are left out
    torch = None  # type: ignore[assignment]

BASE = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
NEAR = BASE * np.float32(1 + 1e-5)
FAR = BASE.copy()
FAR[1, 2] = 70


def _one_step(array: Any) -> Any:
    """Every element moved to the next one of its type."""
    bits = array.view(f"u{array.itemsize}")
    return (bits + 1).astype(bits.dtype).view(array.dtype)


@dataclass(frozen=True)
class Case:
    """Contents of one type. `same` has other bytes than `base` and means the same."""

    name: str
    base: bytes
    different: bytes
    type: str
    same: bytes | None = None
    near: bytes | None = None
    broken: bytes | None = None
    rule: Mapping[str, Any] = field(default_factory=dict)
    found: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the different pair."""
    near_status: str = "within"


CASES = (
    Case(
        "log",
        b"start\nloss 0.500 after 10 steps\nend\n",
        b"start\nloss 0.700 after 10 steps\nextra\nend\n",
        "text",
        near=b"start\nloss 0.501 after 10 steps\nend\n",
        broken=b"start\n\0\0\n",
        rule={"rel": 0.01},
        found={"changed_numbers": 1, "added_lines": 1, "removed_lines": 0},
    ),
    Case(
        "facts.json",
        b'{"a": 1, "b": [1, 2.5]}',
        b'{"a": 1, "b": [1, 3.5], "c": null}',
        "json",
        same=b'{"b":[1.0,2.5],"a":1}',
        near=b'{"a": 1, "b": [1, 2.51]}',
        broken=b'{"a": 1, "b": [1, 2.5}',
        rule={"rel": 0.01},
        found={"changed": 1, "added": 1, "max_abs": 1.0, "max_rel": 0.4},
    ),
    Case(
        "facts.yaml",
        b"a: 1\nb: [1, 2.5]\n",
        b"a: 2\nb: [1, 2.5]\n",
        "yaml",
        same=b"# the same\nb:\n- 1\n- 2.5\na: 1\n",
        near=b"a: 1\nb: [1, 2.51]\n",
        broken=b"a: [1, 2\nb: 3\n",
        rule={"rel": 0.01},
        found={"changed": 1, "max_abs": 1.0},
    ),
    Case(
        "table.csv",
        b"id,time\n1,2.0\n2,3.0\n",
        b"id,time\n1,2.0\n2,4.0\n3,1.0\n",
        "csv",
        same=b"id,time\n2,3.00\n1,2\n",
        near=b"id,time\n1,2.01\n2,3.0\n",
        broken=b"id,time\n1,2.0\n2\n",
        rule={"rel": 0.01, "keys": ("id",)},
        found={"added_rows": 1, "changed_rows": 1, "changed_cells": 1},
    ),
    Case(
        "out.npy",
        makers.npy(BASE),
        makers.npy(FAR),
        "npy",
        same=makers.npy(np.asfortranarray(BASE)),
        near=makers.npy(NEAR),
        broken=makers.npy(BASE)[:-4],
        rule={"rel": 1e-4},
        found={"outside": 1, "max_abs": 63.0, "max_rel": 9.0, "elements": 12},
    ),
    Case(
        "out.npz",
        makers.npz(x=BASE, y=BASE),
        makers.npz(x=FAR, y=BASE),
        "npz",
        same=makers.npz(x=BASE, y=BASE, compressed=True),
        near=makers.npz(x=NEAR, y=BASE),
        broken=makers.npz(x=BASE, y=BASE)[:-30],
        rule={"rel": 1e-4},
        found={"tensors_different": 1, "tensors_equal": 1, "max_abs": 63.0},
    ),
    Case(
        "out.safetensors",
        makers.safetensors(x=BASE, y=BASE.astype(makers.BF16)),
        makers.safetensors(x=FAR, y=BASE.astype(makers.BF16)),
        "safetensors",
        same=makers.safetensors(y=BASE.astype(makers.BF16), x=BASE),
        near=makers.safetensors(x=NEAR, y=BASE.astype(makers.BF16)),
        broken=makers.safetensors(x=BASE)[:-1],
        rule={"rel": 1e-4},
        found={"tensors_different": 1, "tensors_equal": 1, "max_abs": 63.0},
    ),
    Case(
        "kernel.ptx",
        makers.PTX.encode(),
        makers.PTX.replace("shl.b32 \t%r4, %r3, 1", "mul.lo.s32 \t%r4, %r3, 3").encode(),
        "ptx",
        same=makers.PTX.replace("8.4", "8.5")
        .replace("%r4", "%r40")
        .replace("BB0_2", "BB9_7")
        .encode(),
        broken=makers.PTX[:-30].encode(),
        found={"kernels_different": 1},
    ),
    Case(
        "kernel.sass",
        makers.SASS.encode(),
        makers.SASS.replace("REG:10", "REG:12").encode(),
        "sass",
        same=makers.SASS.replace("R9", "R11").replace("0x218", "0x220").encode(),
        broken=b"no kernel here\n",
        found={"kernels_different": 1},
    ),
    Case(
        "kernels.txt",
        b"gemm<1>\nsoftmax\n",
        b"gemm<1>\nsoftmax\nsoftmax\n",
        "kernels",
        same=b"1 softmax\n1 gemm<1>\n",
        near=b"gemm<2>\nsoftmax\n",
        broken=b"# nothing\n",
        near_status="equal_after_masks",
        found={"recounted": 1, "launches_a": 2, "launches_b": 3},
    ),
    Case(
        "plot.png",
        makers.image((5, 5, 10, 9)),
        makers.image((5, 5, 20, 9)),
        "image",
        same=makers.image((5, 5, 10, 9), kind="BMP"),
        near=makers.image((5, 5, 10, 10)),
        broken=makers.image((5, 5, 10, 9))[:60],
        rule={"pixels": 0.01},
        found={"changed_pixels": 40, "pixels": 1200},
    ),
    Case(
        "step.trace.json",
        makers.trace(makers.event("gemm", 0, 10), makers.event("relu", 15, 5)),
        makers.trace(makers.event("gemm", 0, 14), makers.event("gelu", 15, 5)),
        "trace",
        same=makers.trace(makers.event("gemm", 0, 10), makers.event("relu", 15, 5), packed=True),
        near=makers.trace(makers.event("gemm", 0, 10.5), makers.event("relu", 15, 5)),
        broken=makers.trace(makers.event("gemm", 0, 10))[:-10],
        found={"added": 1, "deleted": 1, "increased": 1, "idle_us_a": 5.0, "idle_us_b": 1.0},
    ),
    Case(
        "notes.txt",
        b"took 3 s in /tmp/a1\nresult: blue\n",
        b"took 3 s in /tmp/a1\nresult: green\n",
        "text",
        near=b"took 4 s in /tmp/b2\nresult: blue\n",
        broken=b"took\0",
        near_status="equal_after_masks",
        found={"added_lines": 1, "removed_lines": 1},
    ),
    Case(
        "events.jsonl",
        b'{"id": 1, "x": 2.5}\n{"id": 2, "x": 1}\n',
        b'{"id": 1, "x": 2.5}\n{"id": 2, "x": 4}\n',
        "json",
        same=b'{"x": 2.50, "id": 1}\n\n{"x": 1, "id": 2}\n',
        near=b'{"id": 1, "x": 2.51}\n{"id": 2, "x": 1}\n',
        broken=b'{"id": 1, "x": 2.5}\n{"id": 2, \n',
        rule={"rel": 0.01, "keys": ("id",)},
        found={"changed": 1, "max_abs": 3.0},
    ),
    Case(
        "bf16.safetensors",
        makers.safetensors(w=BASE.astype(makers.BF16)),
        makers.safetensors(w=FAR.astype(makers.BF16)),
        "safetensors",
        # One step of bfloat16: the usual tolerance of the type, without a rule.
        near=makers.safetensors(w=_one_step(BASE.astype(makers.BF16))),
        broken=makers.safetensors(w=BASE.astype(makers.BF16))[:-1],
        found={"tensors_different": 1, "outside": 1, "max_abs": 63.0},
    ),
    Case(
        "fp8.safetensors",
        makers.safetensors(w=BASE.astype(makers.FP8)),
        makers.safetensors(w=FAR.astype(makers.FP8)),
        "safetensors",
        near=makers.safetensors(w=_one_step(BASE.astype(makers.FP8))),
        broken=makers.safetensors(w=BASE.astype(makers.FP8))[:20],
        # 70 is 72 in this format.
        found={"tensors_different": 1, "outside": 1, "max_abs": 65.0},
    ),
    Case("data.bin", b"\0\1\2", b"\0\1\3\4", "bytes", found={"size_delta": 1}),
)


def _checkpoint_case() -> Case:
    tensor = torch.from_numpy(BASE)
    base = makers.checkpoint({"w": tensor, "step": 1})
    return Case(
        "model.pt",
        base,
        makers.checkpoint({"w": torch.from_numpy(FAR), "step": 1}),
        "pt",
        same=makers.checkpoint({"step": 1, "w": tensor}),
        near=makers.checkpoint({"w": torch.from_numpy(NEAR), "step": 1}),
        broken=base[:-60],
        rule={"rel": 1e-4},
        found={"tensors_different": 1, "max_abs": 63.0},
    )


BY_NAME = [pytest.param(case, id=case.name) for case in CASES]
if torch is not None:
    BY_NAME.append(pytest.param(_checkpoint_case(), id="model.pt"))


@pytest.mark.parametrize("case", BY_NAME)
def test_the_same_bytes_are_equal(case: Case, compare: Compare) -> None:
    record = compare(case.base, case.base, case.name, **case.rule)

    assert (record.status, record.type) == ("equal", case.type)
    assert (record.size_a, record.size_b) == (len(case.base), len(case.base))


@pytest.mark.parametrize("case", [p for p in BY_NAME if p.values[0].same])  # type: ignore[union-attr]
def test_other_bytes_that_mean_the_same_are_equal(case: Case, compare: Compare) -> None:
    assert case.same is not None
    assert case.same != case.base

    record = compare(case.base, case.same, case.name, **case.rule)

    assert (record.status, record.type) == ("equal", case.type)
    assert record.locations == ()


@pytest.mark.parametrize("case", [p for p in BY_NAME if p.values[0].near])  # type: ignore[union-attr]
def test_a_difference_inside_the_tolerance_is_within(case: Case, compare: Compare) -> None:
    assert case.near is not None

    record = compare(case.base, case.near, case.name, **case.rule)

    assert record.status == case.near_status
    assert record.tolerance or record.masks


@pytest.mark.parametrize("case", BY_NAME)
def test_a_difference_is_found_and_placed(case: Case, compare: Compare) -> None:
    record = compare(case.base, case.different, case.name, **case.rule)

    assert (record.status, record.type) == ("different", case.type)
    told = {name: record.metrics[name] for name in case.found}
    assert told == pytest.approx(dict(case.found))
    assert record.locations or any(child.locations for child in record.children)


@pytest.mark.parametrize("case", [p for p in BY_NAME if p.values[0].broken])  # type: ignore[union-attr]
@pytest.mark.parametrize("both", [False, True], ids=["one side", "both sides alike"])
def test_broken_content_is_unreadable(case: Case, both: bool, compare: Compare) -> None:
    assert case.broken is not None
    first = case.broken if both else case.base

    record = compare(first, case.broken, case.name, type=case.type, **case.rule)

    assert record.status == "unreadable"
    assert ("both sides" if both else "B: ") in record.note
    assert record.metrics == {}


@pytest.mark.parametrize("case", BY_NAME)
def test_a_file_beyond_the_limit_is_compared_by_its_bytes_alone(
    case: Case, compare: Compare
) -> None:
    equal = compare(case.base, case.base, case.name, max_bytes=1)
    unlike = compare(case.base, case.different, case.name, max_bytes=1)

    assert equal.status == "equal"
    assert unlike.status == ("different" if case.type == "bytes" else "skipped")
    if case.type != "bytes":
        assert "the bytes differ" in unlike.note
        assert "1 B" in unlike.note


@pytest.mark.parametrize("case", BY_NAME)
def test_what_one_side_lacks_is_told_so(case: Case, tmp_path: Path, confined: Confined) -> None:
    for side, names in (("a", ("shared", "gone")), ("b", ("shared", "come"))):
        for name in names:
            folder = tmp_path / side / name
            folder.mkdir(parents=True)
            (folder / case.name).write_bytes(case.base)
    sides = [resolve(str(tmp_path / side), tmp_path) for side in ("a", "b")]
    rules = [CompareRule(path="**").model_copy(update=dict(case.rule))]

    found = artifacts.compare(*sides, rules, confined, is_artifact=lambda path: True)

    assert {record.path: record.status for record in found.records} == {
        f"gone/{case.name}": "only_a",
        f"come/{case.name}": "only_b",
        f"shared/{case.name}": "equal",
    }
    assert [r.size_b for r in found.records if r.status == "only_a"] == [None]
