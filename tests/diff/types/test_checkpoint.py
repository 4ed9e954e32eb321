"""Checkpoints go through torch's weights-only loader in a process of their own."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from orchestrator.diff.limits import Limits
from orchestrator.diff.types import checkpoint
from tests.diff import makers
from tests.diff.conftest import Compare

torch = pytest.importorskip("torch", reason="torch is not installed")


class Evil:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def test_tensors_and_values_are_compared_by_their_path(compare: Compare) -> None:
    w = torch.arange(6.0).reshape(2, 3)
    bias = torch.ones(2, dtype=torch.bfloat16)
    a = {"model": {"w": w, "tied": w, "b": [bias]}, "step": 3, "name": "x"}
    b = {"model": {"w": w * (1 + 1e-7), "tied": w, "b": [bias * 2]}, "step": 4, "name": "x"}

    record = compare(makers.checkpoint(a), makers.checkpoint(b), "x.pt")

    assert (record.status, record.type) == ("different", "pt")
    assert [(p.where, p.a, p.b) for p in record.locations] == [("step", "3", "4")]
    assert {child.path: child.status for child in record.children} == {
        "model.b[0]": "different",
        "model.w": "within",
    }
    assert record.metrics["tensors_equal"] == 1


@pytest.mark.parametrize("layout", ["pickle", "torch"])
def test_a_pickle_that_is_a_program_is_refused_and_not_run(
    layout: str, tmp_path: Path, compare: Compare
) -> None:
    mark = tmp_path / "ran"
    evil = Evil(f"touch {mark}")
    content = pickle.dumps(evil) if layout == "pickle" else makers.checkpoint({"w": evil})

    record = compare(makers.checkpoint({"w": torch.ones(2)}), content, "x.pt", type="pt")

    assert record.status == "unreadable"
    assert "B: torch refuses it" in record.note
    assert "weights_only=False" not in record.note.replace(" ", "")
    assert not mark.exists()


def test_a_cut_checkpoint_is_unreadable(compare: Compare) -> None:
    whole = makers.checkpoint({"w": torch.ones(200)})

    record = compare(whole, whole[:-100], "x.pt")

    assert record.status == "unreadable"


def test_a_load_that_takes_too_long_is_skipped(compare: Compare) -> None:
    a, b = makers.checkpoint({"w": torch.ones(2)}), makers.checkpoint({"w": torch.zeros(2)})

    record = compare(a, b, "x.pt", limits=Limits(deadline_s=0.01))

    assert record.status == "skipped"
    assert "took longer" in record.note


def test_without_torch_the_pair_says_what_is_missing(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The child imports `torch` from this directory first, and finds none.
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    a, b = makers.checkpoint({"w": torch.ones(2)}), makers.checkpoint({"w": torch.zeros(2)})

    record = compare(a, b, "x.pt")

    assert record.status == "skipped"
    assert "gpu-orch[kernels]" in record.note
    assert checkpoint._NO_TORCH == 3
