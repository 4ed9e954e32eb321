from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.cli import main
from preflight.schedule import check_order, check_residency, check_rows, check_waves, waves


@given(st.permutations(range(8)))
def test_order_holds_exactly_for_equal_orders(pull: list[int]) -> None:
    problems = check_order(range(8), pull)

    assert (problems == []) == (pull == list(range(8)))


@pytest.mark.parametrize(
    ("consumption", "pull", "words"),
    [
        (["a", "b"], ["a"], "chunk `b` is consumed and never pulled (1 such)"),
        (["a"], ["a", "b"], "chunk `b` is pulled and never consumed (1 such)"),
        (["a"], ["a", "a"], "a chunk is pulled twice"),
        (
            ["a", "b", "c"],
            ["b", "c", "a"],
            "position 0 consumes chunk `a`, the pull order brings `b` there and `a` 2",
        ),
    ],
)
def test_order_says_what_is_wrong(consumption: list[str], pull: list[str], words: str) -> None:
    (problem,) = check_order(consumption, pull)

    assert problem.message.startswith(words)
    assert problem.pitfall == 5


@pytest.mark.parametrize(
    ("spinning", "sms", "per_sm", "fits"),
    [(131, 132, 1, True), (132, 132, 1, False), (262, 132, 2, True), (263, 132, 2, False)],
)
def test_residency_keeps_one_sm_in_reserve(
    spinning: int, sms: int, per_sm: int, fits: bool
) -> None:
    assert (check_residency(spinning, sms, per_sm) == []) is fits


def test_waves_of_the_seed_s_account() -> None:
    """2048 blocks of 97 KB on k SMs: k = 4 and k = 24 differ by 426 waves."""
    assert waves(2048, 4) - waves(2048, 24) == 426
    (problem,) = check_waves(2048, 4, wave_cost_us=4)
    assert problem.message == "2048 jobs on 4 SMs run in 512 waves, 2048 us at 4 us a wave"
    assert check_waves(24, 24) == []


@given(st.permutations(range(12)))
def test_rows_hold_exactly_for_the_identity(observed: list[int]) -> None:
    assert (check_rows(observed) == []) == (observed == list(range(12)))


def test_rows_names_the_exchanged_block() -> None:
    exchanged = [*range(64, 128), *range(64)]

    (problem,) = check_rows(exchanged)

    assert problem.message == "128 of 128 rows are permuted: rows 0 to 63 hold 64 to 127"


def test_rows_that_were_lost() -> None:
    (problem,) = check_rows([0, 0, 2, 3])

    assert problem.message == "rows are lost: 1 of 4 appear nowhere, row 1 first"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"checks": [], "schema": "other"}, 'expected `"schema": "preflight/schedule-v1"`'),
        ({"checks": []}, "nothing checked is not a pass"),
        ({"checks": [{"check": "ordre"}]}, "checks[0]: `check` is `ordre`"),
        ({"checks": [{"check": "rows", "rows": []}]}, "no key `rows`"),
        ({"checks": [{"check": "waves", "jobs": 3}]}, "the key `sms` is missing"),
        ({"checks": [{"check": "waves", "jobs": 3, "sms": 0}]}, "cannot be used"),
    ],
)
def test_unusable_file_ends_with_two(
    document: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"schema": "preflight/schedule-v1"} | document), "utf-8")

    assert main(["schedule", str(file)]) == 2
    assert words in capsys.readouterr().err


def test_file_that_holds_ends_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checks = [{"check": "order", "consumption": [1, 2], "pull": [1, 2]}]
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"schema": "preflight/schedule-v1", "checks": checks}), "utf-8")

    assert main(["schedule", str(file)]) == 0
    assert capsys.readouterr().out == "preflight: no schedule problems\n"
