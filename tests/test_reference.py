"""The runs that the docs speak of: still what came home, and looking at them changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Project

ROOT = Path(__file__).resolve().parent.parent
RUNS = sorted(path.parent for path in (ROOT / "artifacts/reference").glob("*/run.json"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(params=RUNS, ids=lambda run: run.name)
def reference(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: looking at a run unpacks its evidence beside it."""
    ignored = shutil.ignore_patterns("evidence")
    return Path(shutil.copytree(request.param, tmp_path / request.param.name, ignore=ignored))


def test_there_are_some() -> None:
    assert RUNS


def test_it_is_verified_and_shown_and_stays_as_it_is(project: Project, reference: Path) -> None:
    before = contents(reference)

    verified = project.orch("verify", str(reference))
    shown = project.orch("show", str(reference))
    reported = project.orch("report", str(reference), "-o", str(project.path / "report.html"))

    assert verified.code == 0, verified.text
    assert f"{reference.name}: verified" in verified.out
    assert "NVIDIA H200" in shown.out
    assert reported.code == 0, reported.text
    assert contents(reference) == before
