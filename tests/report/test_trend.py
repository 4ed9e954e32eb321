"""A trend as a terminal shows it, wide and narrow."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orchestrator.report import trend
from orchestrator.verdict.trend import Round, Trend

RUNS = [f"20261129-15503{n}-moe_shapes-f14{n}" for n in range(3)]
FILES = ("kernels/moe/experts.py", "kernels/moe/routing.py", "a.py", "b.py")
TREND = Trend(
    "latency",
    "sweep",
    {"tokens": 64},
    "GB/s",
    [
        Round(RUNS[0], "here", "before the split", 1234.5),
        Round(RUNS[1], "here", "", None, why="recorded as error: NaN in the output"),
        Round(
            RUNS[2],
            "here",
            "",
            2469.0,
            ratio=2.0,
            changes=["code", "env.OMP_NUM_THREADS 1 → 2", "driver.version 1 → 2"],
            files=FILES,
        ),
    ],
    "moe_shapes",
)


def shown(width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    trend.show([TREND], console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_nothing_is_dropped_at_any_width(width: int) -> None:
    lines = shown(width).splitlines()

    text = " ".join(" ".join(lines).split())
    for words in (*RUNS, "1234 GB/s", "2469 GB/s", "x2.000", "“before the split”"):
        assert words in text
    assert "error: NaN in the output" in text
    assert "changed: code (4 files: kernels/moe/experts.py, kernels/moe/routing.py, a.py, …);" in (
        text
    )
    assert "env.OMP_NUM_THREADS 1 → 2; driver.version 1 → 2" in text
    assert "…" not in text.replace("a.py, …)", "")
    assert max(map(len, lines)) <= width


def test_what_nobody_can_read_is_told_in_the_row() -> None:
    console = Console(file=io.StringIO(), width=160)
    lost = ("s: results.jsonl:2: `m` is nan", "s: results.jsonl:3: `m` is nan")
    rounds = [Round("r1", "here", "", 1.0, unreadable=lost[:1])]
    rounds += [Round("r2", "here", "", None, why="no result is `m`", unreadable=lost)]

    trend.show([Trend("m", "s", {}, "us", rounds)], console)

    first, second = console.file.getvalue().splitlines()[2:]  # type: ignore[attr-defined]
    assert first.endswith("  unreadable result: s: results.jsonl:2: `m` is nan")
    assert second.endswith(
        "not measured: no result is `m`  "
        "unreadable result: s: results.jsonl:2: `m` is nan (and 1 more)"
    )


def test_the_largest_of_all_numbers_has_a_bar() -> None:
    console = Console(file=io.StringIO(), width=120)

    trend.show([Trend("m", "s", {}, "us", [Round("r1", "here", "", 1.7e308)])], console)

    assert "▇" * 24 + "\n" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_heading_names_the_experiment() -> None:
    assert shown(80).splitlines()[0] == "latency  moe_shapes  sweep  tokens=64"


def test_a_wide_terminal_has_one_line_for_each_round() -> None:
    assert len(shown(250).splitlines()) == 2 + len(RUNS)


def test_a_narrow_one_has_what_changed_below_the_number() -> None:
    lines = shown(80).splitlines()

    last = next(n for n, line in enumerate(lines) if RUNS[2] in line)
    assert lines[last].endswith("x2.000")
    assert lines[last + 1].startswith("       changed: code (4 files:")
    assert all(line.startswith("       ") for line in lines[last + 1 :])
