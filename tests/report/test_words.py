"""Facts of the host in words, the same in the terminal and in Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.report.words import show_fact
from orchestrator.verdict.conditions import Field


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (135_148_564_480, "By", "135 GB"),
        (["avx", "avx2"], "", "avx, avx2"),
        ([], "", "none"),
        (True, "", "true"),
        (700, "W", "700 W"),
        ({"GPU0": {"GPU1": "NV18"}}, "", "GPU0: (GPU1: NV18)"),
        ({"0": "0-15"}, "", "0: 0-15"),
    ],
)
def test_a_fact_is_shown_without_the_marks_of_a_language(value: Any, unit: str, words: str) -> None:
    assert show_fact(Field("value", value, unit)) == words


@pytest.mark.parametrize(
    ("state", "words"), [("unknown", "unknown"), ("not_applicable", "not applicable")]
)
def test_a_fact_without_a_value_says_why(state: str, words: str) -> None:
    assert show_fact(Field(state)) == words
