"""A comparison in the terminal: what is read first, and nothing a terminal would act on."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from orchestrator.diff.code import CodeDiff, FileChange
from orchestrator.diff.comparison import Comparison, Named
from orchestrator.diff.conditions import Change, ConditionDiff
from orchestrator.diff.jobs import Ended
from orchestrator.diff.measures.contrast import Contrast, Level
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import Location, Record
from orchestrator.report.diffing import terminal
from orchestrator.verdict.conditions import Drift, Field

EVIL = "\x1b]0;taken\x07\x1b[2J\x9b31m\u202egnp.exe\r\b\ud800 kept"
A, B = Named("a", "run", "run-a"), Named("b", "run", "run-b")
LEVEL = Level(2, 1.0, 1.2, 1.1)


def told(comparison: Comparison, *, width: int = 200, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    terminal.show(comparison, console=console, **options)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def metric(outcome: Any, reason: str = "", name: str = "time") -> MetricDiff:
    return MetricDiff(name, "s", {"n": 1}, Contrast(outcome, LEVEL, LEVEL, "us", 1.0, None, reason))


def hostile() -> Comparison:
    """Every text of a comparison that a host may have written."""
    place = Location(EVIL, EVIL, EVIL)
    record = Record(
        EVIL, EVIL, "different", locations=(place,), note=EVIL, tolerance=EVIL, masks={EVIL: 1}
    )
    whole = Record(f"{EVIL}2", "npz", "different", children=(record,), metrics={"outside": 1})
    field = Field("value", EVIL, EVIL, severity="identity")
    exact = Level(1, point_class="exact", value=EVIL)
    return Comparison(
        Named(EVIL, "run", EVIL, EVIL, EVIL),
        B,
        conditions=ConditionDiff(
            (Change(EVIL, "identity", field, field),), 1, 1, (("A", Drift(EVIL, field, field)),)
        ),
        code=CodeDiff("1" * 40, "2" * 40, (FileChange(EVIL, 1, 1),)),
        ended=(Ended("job", EVIL, EVIL, EVIL),),
        metrics=(
            MetricDiff(EVIL, EVIL, {EVIL: EVIL}, Contrast("different", exact, exact, EVIL)),
            MetricDiff(EVIL, EVIL, {}, Contrast("too_few", LEVEL, LEVEL, EVIL, 1.0, None, EVIL)),
        ),
        artifacts=(record, whole),
        problems=(EVIL,),
    )


@pytest.mark.parametrize("stat", [False, True])
def test_nothing_a_terminal_acts_on_is_printed(stat: bool) -> None:
    text = told(hostile(), stat=stat)

    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r", "\b", "\ud800"} & set(text)
    assert text.count("kept") >= 5


def test_two_experiments_are_told_right_below_the_sides() -> None:
    found = Comparison(replace(A, experiment="gemm"), replace(B, experiment="softmax"))

    words = "two experiments: A is a run of `gemm`, B of `softmax`"
    assert told(found).splitlines()[2] == words
    assert found.as_json()["problems"] == [words]
    assert "two experiments" not in told(replace(found, b=replace(B, experiment="gemm")))


def test_conditions_code_endings_metrics_and_artifacts_come_in_this_order() -> None:
    lines = told(hostile()).splitlines()

    words = ("changed during", "conditions: 1", "code: 1", "ended", "metrics: ", "artifacts: ")
    places = [next(i for i, line in enumerate(lines) if line.startswith(w)) for w in words]
    assert places == sorted(places)


def test_a_reason_that_many_metrics_share_is_said_once() -> None:
    few = [metric("too_few", "1 and 1 blocks; a verdict needs 6", f"m{n}") for n in range(5)]

    text = told(Comparison(A, B, metrics=(*few, metric("ambiguous", "no floor"))))

    assert text.count("1 and 1 blocks") == 1
    assert "no floor" in text


def test_counts_alone_name_no_metric_and_no_job() -> None:
    ended = (Ended("job", "j1", "passed", "failed"), Ended("entry", "e1", "hit", "miss"))
    found = Comparison(A, B, ended=ended, metrics=(metric("too_few"),))

    text = told(found, stat=True)

    assert "ended otherwise: 1 job, 1 entry\n" in text
    assert "1 job, 2 entries" in told(replace(found, ended=(*ended, ended[1])))
    assert "metrics: 1 too few" in text
    assert "j1" not in text


def test_long_lists_end_with_how_many_more_there_are() -> None:
    records = tuple(Record(f"x{n:03}", "text", "different") for n in range(100))

    text = told(Comparison(A, B, artifacts=records))

    assert text.count("different  x") == 40
    assert "and 60 more" in text


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ((Record("x", "text", "equal"),), "nothing differs that was judged"),
        ((Record("x", "text", "different"),), "the two sides differ"),
        ((Record("x", "text", "skipped", note="too large"),), "not everything could be compared"),
        ((), "not everything could be compared"),
    ],
)
def test_the_last_line_says_what_it_comes_to(records: tuple[Record, ...], words: str) -> None:
    assert told(Comparison(A, B, artifacts=records)).splitlines()[-1].startswith(words)


def long_metric() -> MetricDiff:
    point = {"variant": "persistent_tma", "m": 8192, "n": 8192, "k": 4096, "dtype": "bfloat16"}
    one, two = (
        Level(8, low, low + 30, low + 15, "stable", low + 15, "median") for low in (1012.5, 1203.5)
    )
    reason = "timed in another way: flush none -> l2, so that nothing of this is judged at all"
    return MetricDiff(
        "gemm_time",
        "measure",
        point,
        Contrast("not_comparable", one, two, "us", 1.186, None, reason),
    )


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_keeps_words_and_both_sides_whole(width: int) -> None:
    text = told(Comparison(A, B, metrics=(long_metric(), metric("too_few"))), width=width)

    # The last line is one piece, for the terminal to fold.
    lines = text.splitlines()[:-1]
    assert max(map(len, lines)) <= width
    for whole in ("gemm_time", "variant=persistent_tma", "dtype=bfloat16", "flush none -> l2"):
        assert any(whole in line for line in lines)
    assert any("A 1028 us (1012…1042, 8)   B 1218 us (1204…1234, 8)" in line for line in lines)
    assert any("B/A 1.186" in line for line in lines)
    assert len(lines) < 25


def test_a_wide_terminal_has_a_line_a_metric() -> None:
    lines = told(Comparison(A, B, metrics=(long_metric(),)), width=200).splitlines()

    (line,) = (line for line in lines if "gemm_time" in line)
    assert all(part in line for part in ("dtype=bfloat16", "1028 us", "1218 us", "1.186", "stable"))


def test_a_side_that_stands_alone_shows_its_value_and_no_class() -> None:
    value = Level(1, point_class="exact", value=64)
    alone = MetricDiff("rows", "s", {}, Contrast("only_a", value, Level(0), "1"))
    without = MetricDiff(
        "time", "s", {}, Contrast("no_value", Level(1), Level(1), "us", reason="x")
    )

    text = told(Comparison(A, B, metrics=(alone, without)))

    (line,) = (line.split() for line in text.splitlines() if "only a" in line and "rows" in line)
    assert line == ["only", "a", "rows", "s", "64", "-"]
    assert "too few" not in text
