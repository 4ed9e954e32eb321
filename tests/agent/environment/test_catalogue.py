from __future__ import annotations

import re

import pytest

from orchestrator.agent.environment.catalogue import FIXED_KEYS, GPU_KEYS, gpu_key, spec_of

from .conftest import ROOT

ROW = re.compile(r"^\| `([\w.<>]+)` \| ([^|]*) \| (\w+) \| (.+?) \|$", re.MULTILINE)


def documented() -> dict[str, tuple[str, str, str]]:
    text = (ROOT / "docs" / "environment.md").read_text("utf-8")
    return {
        key: (unit.strip().strip("`"), severity, meaning)
        for key, unit, severity, meaning in ROW.findall(text)
    }


def test_the_page_lists_exactly_the_keys_there_are() -> None:
    page = documented()

    expected = {**FIXED_KEYS, **{f"gpu.<i>.{key}": spec for key, spec in GPU_KEYS.items()}}
    assert set(page) == set(expected)
    for key, spec in expected.items():
        assert page[key] == (spec.unit, spec.severity, spec.meaning), key


def test_a_key_outside_the_catalogue_is_refused() -> None:
    for key in ("gpu.0.colour", "gpu.x.name", "cpu.mood", "gpu.name"):
        with pytest.raises(KeyError):
            spec_of(key)


def test_a_gpu_key_means_the_same_for_every_gpu() -> None:
    assert (
        spec_of(gpu_key(0, "clock_sm")) == spec_of(gpu_key(15, "clock_sm")) == GPU_KEYS["clock_sm"]
    )


@pytest.mark.parametrize("key", ["numa.memory", "memory.available", "disk.free", "disk.shm_free"])
def test_a_gauge_that_moves_with_every_run_is_no_identity(key: str) -> None:
    """Seen on a GPU host: node 0 had 6.7 GB before a run and 30.0 GB after it."""
    assert spec_of(key).severity == "condition"


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("CUDA_VISIBLE_DEVICES", "info"),
        ("TRITON_CACHE_DIR", "info"),
        ("CUDA_CACHE_PATH", "info"),
        ("SLURM_JOB_ID", "info"),
        ("NCCL_DEBUG", "identity"),
        ("LD_LIBRARY_PATH", "identity"),
        ("TRITON_PTXAS_PATH", "identity"),
    ],
)
def test_a_variable_that_differs_by_design_is_no_identity(name: str, severity: str) -> None:
    assert spec_of(f"env.{name}").severity == severity
