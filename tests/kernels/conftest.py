"""Kernel tests need torch, and run the interpreter when there is no GPU; both settled here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Kernels are not part of the installed package, so the repository itself must be on the path.
sys.path.insert(0, str(ROOT))

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["**/test_*.py", "test_*.py"]
else:
    if importlib.util.find_spec("triton") is None:
        collect_ignore_glob = ["moe/test_*.py", "gate/test_*.py"]
    import kernels.backend  # noqa: F401  chooses the interpreter before any test imports Triton


def pytest_report_header() -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "kernels: not tested, torch is not installed (pip install 'gpu-orch[kernels]')"
    if importlib.util.find_spec("triton") is None:
        return "kernels: moe and gate not tested, Triton has no build for this platform"
    return None


# The interpreter computes with numpy: it turns one-element arrays into loop bounds, and overflow
# and NaN arithmetic, which a GPU does silently and tests do on purpose, make numpy warn.
INTERPRETER_NOISE = (
    "ignore:Conversion of an array with ndim > 0:DeprecationWarning",
    "ignore:overflow encountered:RuntimeWarning",
    "ignore:invalid value encountered:RuntimeWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for noise in INTERPRETER_NOISE:
                item.add_marker(pytest.mark.filterwarnings(noise))


@pytest.fixture
def root() -> Path:
    return ROOT
