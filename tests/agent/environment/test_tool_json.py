from __future__ import annotations

import pytest

from orchestrator.agent.environment.tool_json import Block, parse_json


@pytest.mark.parametrize(
    "text", ["", "WARNING: No JSON data to report", "{", '[{"gpu": 0', "[1] trailing"]
)
def test_what_is_no_whole_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_json(text)


def test_numbers_are_read_bare_and_with_their_unit() -> None:
    block = Block({"a": 45, "b": {"value": 45, "unit": "W"}, "c": "45", "d": {"value": "45"}}, "x")

    found = [block.amount(path, {"W": 1.0, "": 1.0}).value for path in "abcd"]

    assert found == [45, 45, 45, 45]


@pytest.mark.parametrize(
    "content",
    [
        {"p": {"value": "N/A", "unit": "W"}},
        {"p": "N/A"},
        {"p": {"value": None, "unit": "W"}},
        {"p": {"unit": "W"}},
        {"p": {}},
        {"p": None},
        {},
        "N/A",
        None,
    ],
)
def test_a_missing_number_is_no_value_in_any_shape(content: object) -> None:
    reading = Block(content, "x").amount("p", {"W": 1.0, "": 1.0})

    assert reading.state in ("not_applicable", "unknown")


def test_a_strange_unit_is_an_error() -> None:
    reading = Block({"p": {"value": 1, "unit": "kW"}}, "x").amount("p", {"W": 1.0})

    assert reading.state == "error"
