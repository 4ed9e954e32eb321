"""Sweeps: what was predicted comes first, with the bands of its own predictions and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.report.html.sections import sweeps
from orchestrator.spec.ledger import Ledger
from orchestrator.store.history import History
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.reconcile import reconcile
from tests.report.html.sections.views import result, view

POINTS = [{"n": 64}, {"n": 128}]


def body(tmp_path: Path, *entries: dict[str, object], step: str = "bench") -> str:
    results = [
        result(metric, 600.0 + point["n"], "us", point=point, step=at)
        for at in {"bench", step}
        for metric in ("e2e", "other")
        for point in POINTS
    ]
    told = [
        {
            "metric": "e2e",
            "unit": "us",
            "because": "guessed from before",
            "source": "guess",
            **entry,
        }
        for entry in entries
    ]
    ledger = Ledger.model_validate({"ledger": "exp", "entries": told}) if told else None
    items = reconcile(ledger, results, History(), Conditions())
    section = sweeps.section(view(tmp_path, results=results, items=items))
    assert section is not None
    return str(section.body)


def bands(text: str) -> list[str]:
    return re.findall(r'<rect class="band s\d"[^>]*>\s*<title>([^<]*)', text)


def test_a_prediction_is_a_band_at_its_point(tmp_path: Path) -> None:
    entry = {"id": "a", "where": {"n": 64}, "expect": {"value": 650, "rel": "5%"}}

    text = body(tmp_path, entry)

    assert bands(text) == ["a: 650 ±5 % us"]
    assert text.index("e2e of bench") < text.index("<details") < text.index("other of bench")


def test_an_exact_value_is_a_line(tmp_path: Path) -> None:
    entry = {"id": "a", "where": {"n": 64}, "expect": {"value": 664, "exact": True}}

    assert bands(body(tmp_path, entry)) == ["a: = 664 us"]


def test_a_ratio_is_no_band_among_times(tmp_path: Path) -> None:
    ratio = {"interval": [1.0, 1.2], "ratio_to": {"metric": "other"}}

    assert bands(body(tmp_path, {"id": "a", "where": {"n": 64}, "expect": ratio})) == []


def test_an_open_side_is_no_band(tmp_path: Path) -> None:
    entry = {"id": "a", "where": {"n": 64}, "expect": {"interval": [None, 700]}}

    assert bands(body(tmp_path, entry)) == []


def test_another_step_has_no_part_in_it(tmp_path: Path) -> None:
    entry = {"id": "a", "step": "bench", "where": {"n": 64}, "expect": {"value": 650, "rel": "5%"}}

    text = body(tmp_path, entry, step="split")

    assert bands(text) == ["a: 650 ±5 % us"]


def test_without_predictions_the_first_few_are_shown(tmp_path: Path) -> None:
    text = body(tmp_path)

    assert "<details" not in text


def test_a_result_without_the_axis_has_no_place_on_it(tmp_path: Path) -> None:
    told = [result("time", n, point={"n": n}) for n in (1, 2)]
    told.append(result("time", 900, point={"m": 1}))

    section = sweeps.section(view(tmp_path, results=told))

    assert section is not None
    assert "900" not in str(section.body)


def test_every_result_is_looked_at_once_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    series = sweeps._series
    monkeypatch.setattr(sweeps, "_series", lambda *of: asked.append(of) or series(*of))
    many = [result("time", n % 7, point={"n": n, "m": n % 8}) for n in range(400)]

    section = sweeps.section(view(tmp_path, results=many))

    assert section is not None
    assert len(asked) == len(many)
