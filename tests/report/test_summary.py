"""The report at the end of a run, as a terminal shows it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.report import summary
from orchestrator.report.words import show_distance, show_measured
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.results import Result
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.item import Item
from orchestrator.verdict.reconcile import reconcile
from tests.verdict.runs import entry, history, job, ledger, result

RECORD = RunRecord(
    run_id="20260131-235959-exp-0001",
    experiment="exp",
    experiment_file="exp.yaml",
    host="here",
    carrier="local",
    created_at="2026-01-31T23:59:59.000Z",
    orch_version="0",
    state="home",
    tree=Tree(local="0" * 40, object_format="sha1"),
    code={},
    caches="isolated",
)


def shown(items: Sequence[Item], width: int = 100, *, colour: bool = False) -> str:
    """What `orch show` writes about a run whose one step passed."""
    facts = summary.Summary(RECORD, Path("run"), history(job("run")), items, Conditions())
    console = Console(file=io.StringIO(), width=width, force_terminal=colour)
    summary.show(facts, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def recorded(*results: Result) -> list[Item]:
    return reconcile(None, results, history(job("run")), Conditions())


def test_what_could_not_be_measured_is_shown_with_its_note() -> None:
    items = recorded(
        result("run", "rel_l2", None, "1", status="error", note="NaN in the output"),
        result("run", "time", 1.0),
    )

    text = shown(items)

    assert "recorded as error: NaN in the output" in text
    assert "rel_l2  run" in text
    assert "not fully measured" in text
    assert "1 missing, 1 new" in text


def test_what_was_not_tried_is_marked_as_no_blocker() -> None:
    text = shown(recorded(result("run", "peer", None, status="skipped", note="not installed")))

    assert "peer (info)  run" in text
    assert "not fully measured" not in text


def test_without_a_prediction_nothing_is_as_predicted() -> None:
    text = shown(recorded(result("run", "time", 1.0)), colour=True)

    assert "all steps passed; nothing was predicted" in text
    assert "ledger:" not in text
    assert "\x1b[1;32m" not in text


def test_a_run_as_predicted_is_green() -> None:
    items = reconcile(
        ledger(entry({"value": 1, "rel": "5%"})),
        [result("run", "time", 1.0)],
        history(job("run")),
        Conditions(),
    )

    text = shown(items, colour=True)

    assert "all as predicted" in text
    assert "\x1b[1;32m" in text


LONG = "HopperConfig(body=128, stages=4, warps=8, cluster=2, persistent=True)"


@pytest.mark.parametrize("width", [80, 100])
def test_a_long_text_takes_no_room_from_the_other_columns(width: int) -> None:
    results = [
        result("sweep[shape=mixtral_tp4]", "config", LONG, ""),
        result("run", "time", 1234.5, "GB/s"),
    ]
    expected = entry(
        {"value": 2000, "rel": "5%"}, id="latency.grouped.decode64", unit="GB/s", step="run"
    )
    items = reconcile(ledger(expected), results, history(job("run")), Conditions())

    lines = shown(items, width).splitlines()

    missed = next(line for line in lines if line.startswith("miss"))
    assert "1234 GB/s" in missed
    assert "2000 ±5 % GB/s" in missed
    assert "-7.66" in missed
    told = next(line for line in lines if line.startswith("new"))
    assert "config" in told
    assert "HopperConfig(body=128, …" in told
    assert "latency.grouped.decode64" in "".join(line[5:35].strip() for line in lines)


def test_texts_that_miss_are_shown_whole_below() -> None:
    expected = entry({"value": LONG + "x", "exact": True}, metric="config", unit="")
    items = reconcile(
        ledger(expected), [result("run", "config", LONG, "")], history(job("run")), Conditions()
    )

    text = " ".join(shown(items, 200).split())

    assert f"measured: {LONG} expected: = {LONG}x" in text


@pytest.mark.parametrize(
    ("expect", "value", "words"),
    [
        ({"value": 100, "rel": "5%"}, 105.0, "+1.00"),
        ({"value": 100, "rel": "5%"}, 105.01, "+1.002"),
        ({"value": 100, "rel": "5%"}, 94.9999, "-1.00002"),
        ({"value": 100, "rel": "5%"}, 110.0, "+2.00"),
        ({"value": 100, "rel": "5%"}, 105 * (1 + 3e-9), "+1.0000001"),
        ({"value": 100, "rel": "5%"}, 1e9, "+2.00e+08"),
        ({"interval": [None, 5]}, 5.0, "inside"),
        ({"interval": [None, 5]}, 1.0, "inside"),
        ({"interval": [None, 5]}, 10.0, "+2.00"),
        ({"interval": [5, None]}, 4.999, "-1.0002"),
        ({"value": 5, "exact": True}, 5, ""),
    ],
)
def test_a_miss_never_reads_like_a_hit(expect: dict[str, Any], value: float, words: str) -> None:
    (item,) = reconcile(
        ledger(entry(expect)), [result("run", "time", value)], history(job("run")), Conditions()
    )

    assert show_distance(item) == words


@pytest.mark.parametrize(
    ("expect", "value", "unit", "measured", "expected"),
    [
        ({"value": 65536, "exact": True}, 128, "KiBy", "131072 By", "= 65536 By"),
        ({"value": 65536, "exact": True}, 65536.4, "By", "65536.4 By", "= 65536 By"),
        ({"interval": [None, 1234567]}, 12345678, "By", "12345678 By", "≤ 1234567 By"),
        ({"value": 12345678, "abs": 1}, 12345679.5, "By", "1.235e+07 By", "12345678 ±1 By"),
    ],
)
def test_whole_numbers_have_all_their_digits(
    expect: dict[str, Any], value: float, unit: str, measured: str, expected: str
) -> None:
    (item,) = reconcile(
        ledger(entry(expect, unit="By")),
        [result("run", "time", value, unit)],
        history(job("run")),
        Conditions(),
    )

    assert (show_measured(item), item.expected) == (measured, expected)
