from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
from kernels.epilogue.check import main
sys.exit(main(["--op", "all"]))
"""


def test_without_triton_the_torch_model_runs_and_says_so(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON],
        cwd=root, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert '"value": "torch_model"' in done.stdout
    assert "the Triton source was not run" in done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_a_cpu_machine_gets_the_interpreter() -> None:
    from kernels.backend import BACKEND, Backend

    assert BACKEND is Backend.INTERPRETER
    assert os.environ["TRITON_INTERPRET"] == "1"
    assert "nothing about speed" in BACKEND.proves


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_triton_imported_too_early_is_an_error_with_a_way_out(root: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}

    done = subprocess.run(
        [sys.executable, "-c", "import triton, kernels.backend"],
        cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode != 0
    assert "set TRITON_INTERPRET=1" in done.stderr
