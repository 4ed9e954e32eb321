from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the guards watch torch")

ROOT = Path(__file__).resolve().parents[2]


def run_pytest(folder: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(code, "utf-8")
    loaded = "-p" if "preflight" not in _entry_points() else ""
    plugin = [loaded, "preflight.pytest_plugin"] if loaded else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options]
    return subprocess.run(
        [*command, "test_it.py"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def _entry_points() -> set[str]:
    from importlib.metadata import entry_points

    return {point.name for point in entry_points(group="pytest11")}


CODE = """
import torch

def test_bad():
    torch.set_default_device("meta")
    try:
        torch.zeros(3)
    finally:
        torch.set_default_device(None)

def test_good():
    torch.zeros(3)
"""


def test_caught_pitfall_fails_the_test(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, CODE, "--preflight-guards=implicit-device")

    assert result.returncode == 1
    assert "1 failed, 1 passed" in result.stdout
    assert "test_it.py:7: error[implicit-device] `torch.zeros` without `device=`" in result.stdout


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, CODE)

    assert "2 passed" in result.stdout


def test_unknown_guard_is_a_usage_error(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, CODE, "--preflight-guards=implict")

    assert result.returncode == 4
    assert "there is no guard `implict`" in result.stderr
