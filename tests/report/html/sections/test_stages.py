"""Stages add up, controls beside them do not, and the whole is that of the same process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.report.html.sections import stages
from tests.report.html.sections.views import result, view

PARTS = {"stage.schedule": 12.0, "stage.layer0": 384.5, "stage.layer1": 205.7}


def text_of(told: dict[str, float], tmp_path: Path) -> str:
    found = [
        result(name, value, "1" if name == "stage.unattributed" else "us")
        for name, value in told.items()
    ]
    section = stages.section(view(tmp_path, results=found))
    assert section is not None
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", str(section.body)))


def test_without_a_sum_every_one_is_a_stage(tmp_path: Path) -> None:
    text = text_of({**PARTS, "e2e": 650.0}, tmp_path)

    assert "602.2 us in all" in text
    assert "Controls" not in text
    assert "end to end 650 us; not in any stage +7.4%" in text


@pytest.mark.parametrize("told_sum", [602.2, 603.0])
def test_what_stands_behind_the_sum_is_a_control(tmp_path: Path, told_sum: float) -> None:
    controls = {"stage.layer0_gemm": 386.0, "stage.activation": 20.0}
    whole = {"stage.sum": told_sum, "stage.e2e": 600.0, "stage.unattributed": -0.004, "e2e": 700.0}

    text = text_of({**PARTS, **controls, **whole}, tmp_path)

    assert "602.2 us in all" in text
    stages_shown, _, controls_shown = text.partition("Controls")
    assert "layer1" in stages_shown
    assert "layer0_gemm" not in stages_shown
    assert "layer0_gemm" in controls_shown
    assert "end to end 600 us; not in any stage -0.4%" in text
    assert "unattributed" not in text


def test_a_sum_that_no_stages_reach_makes_no_controls(tmp_path: Path) -> None:
    text = text_of({**PARTS, "stage.sum": 300.0}, tmp_path)

    assert "602.2 us in all" in text
    assert "Controls" not in text


def test_one_stage_is_no_split(tmp_path: Path) -> None:
    assert stages.section(view(tmp_path, results=[result("stage.only", 1.0)])) is None
