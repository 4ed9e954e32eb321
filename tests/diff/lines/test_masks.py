from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.diff.lines.masks import BUILT_IN, Masks, count_hidden

MASKS = Masks()


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("2026-11-29 10:00:00,123 start", "<timestamp> start"),
        ("2026-11-29T10:00:00.5Z start", "<timestamp> start"),
        ("Sun Nov 29 10:00:00 2026 up", "Sun <timestamp> up"),
        ("[10:00:01] go", "[<timestamp>] go"),
        ("V1129 10:00:00.000001 4711 torch/x.py:7] [0/1] guard", "<timestamp> torch/x.py:7] [0/1]"),
        ("killed pid 4711, Process 12", "killed <pid>, <pid>"),
        ("host:4711:4712 [0] NCCL INFO", "host:<pid> [0] NCCL INFO"),
        ("<Tensor at 0x7f3c2c0d5e50>", "<Tensor at <address>>"),
        ("flags 0x1f", "flags 0x1f"),
        ("GPU-6a1f0c2e-0b1c-4a7e-9d3a-112233445566", "GPU-<uuid>"),
        ("wrote /tmp/torchinductor_u/x7.py done", "wrote <temporary path> done"),
        (r"at C:\Users\u\AppData\Local\Temp\k.cu", "at <temporary path>"),
        ("took 12.5 ms, then 3s", "took <duration>, then <duration>"),
        ("speed 12.5 m/s of sm90s", "speed 12.5 m/s of sm90s"),
        ("\x1b[31mred\x1b[0m", "red"),
        (" 45%|####      | 45/100 [00:01<00:01, 30.1it/s] end", " <progress>"),
        ("plain words", "plain words"),
    ],
)
def test_a_mask_hides_what_changes_and_nothing_else(line: str, masked: str) -> None:
    assert MASKS.hide(line).text.startswith(masked)


def test_only_the_last_state_of_an_overwritten_line_counts() -> None:
    found = MASKS.hide("10 of 99\r50 of 99\rdone")

    assert found.text == "done"
    assert [name for name, _ in found.hidden] == ["progress"]


def test_what_was_hidden_is_counted_where_it_differs() -> None:
    a = MASKS.hide("2026-11-29 10:00:00 pid 7 took 3 ms, 0x7f3c2c0d5e50")
    b = MASKS.hide("2026-11-30 10:00:00 pid 8 took 3 ms, 0x7f3c2c0d5e51")

    assert a.text == b.text
    assert dict(count_hidden(a, b)) == {"timestamp": 1, "pid": 1, "address": 1}


def test_line_ends_are_a_mask_of_their_own() -> None:
    a, b = MASKS.hide("text\r"), MASKS.hide("text")

    assert a.text == b.text
    assert dict(count_hidden(a, b)) == {"line end": 1}


def test_masks_of_a_rule_are_counted_under_their_pattern() -> None:
    masks = Masks([r"seed \d+"])

    found = count_hidden(masks.hide("seed 1 x"), masks.hide("seed 2 x"))

    assert dict(found) == {r"rule: seed \d+": 1}


@given(st.text(max_size=200))
def test_hiding_is_the_same_every_time(line: str) -> None:
    assert MASKS.hide(line) == MASKS.hide(line)


@pytest.mark.parametrize(
    "piece", ["1", "1.", "1:", "0x1", "\x1b[", "[=", "/tmp/", "1-", "12%|", "a-"]
)
def test_no_line_makes_a_mask_backtrack_for_long(piece: str) -> None:
    line = piece * (20_000 // len(piece))
    started = time.monotonic()

    MASKS.hide(line)

    assert time.monotonic() - started < 3


def test_every_mask_can_hide_something() -> None:
    names = {mask.name for mask in BUILT_IN}

    assert names == {
        "ansi",
        "progress",
        "timestamp",
        "uuid",
        "address",
        "pid",
        "temporary path",
        "duration",
    }
