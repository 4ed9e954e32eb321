from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent.environment import field
from orchestrator.agent.environment.field import (
    Reading,
    Spec,
    error,
    first_known,
    known,
    lowered,
    merged,
    missing,
    not_applicable,
    number,
    unknown,
    words,
)

MARKERS = {
    "N/A": "not_applicable",
    "[N/A]": "not_applicable",
    "[Not Supported]": "not_applicable",
    "Not Supported": "not_applicable",
    "unsupported": "not_applicable",
    "[Unknown Error]": "error",
    "Unknown Error": "error",
    "ERR!": "error",
    "[GPU is lost]": "error",
    "[GPU requires reset]": "error",
    "": "unknown",
    "   ": "unknown",
    "-": "unknown",
    "[Insufficient Permissions]": "unknown",
    "[Requested functionality has been deprecated]": "unknown",
    "Requested functionality has been deprecated": "unknown",
    'Deprecated, see "KMD version" instead': "unknown",
}


@pytest.mark.parametrize(("text", "state"), MARKERS.items())
def test_every_spelling_of_a_missing_value_is_a_state_and_never_a_value(
    text: str, state: str
) -> None:
    readings = [words(text, "tool"), lowered(text, "tool"), number(text, "tool", {"": 1, "W": 1})]

    assert [reading.state for reading in readings] == [state] * 3
    assert [reading.value for reading in readings] == [None] * 3
    assert all(reading.detail for reading in readings)


@given(
    st.sampled_from(sorted(MARKERS)),
    st.sampled_from(["", " ", "\t", "\n  "]),
    st.sampled_from([str.lower, str.upper, str.title, lambda text: text]),
)
def test_blanks_and_capitals_do_not_turn_a_marker_into_a_value(
    text: str, blank: str, change
) -> None:
    reading = number(f"{blank}{change(text)}{blank}", "tool", {"": 1})

    assert reading.state != "value"


def test_an_absent_text_is_unknown() -> None:
    assert words(None, "tool") == unknown("tool", "the tool does not mention it")
    assert number(None, "tool", {"": 1}).state == "unknown"


@pytest.mark.parametrize("text", ["0", "Default", "None", "P0", "0 MiB", "Pass-Through"])
def test_real_values_are_not_taken_for_markers(text: str) -> None:
    assert missing(text, "tool") is None


def test_a_number_is_scaled_to_the_unit_of_the_snapshot() -> None:
    assert number(" 143771 MiB ", "tool", {"MiB": 1 << 20}).value == 150754820096
    assert number("118.72 W", "tool", {"W": 1}).value == 118.72
    assert number("16x", "tool", {"x": 1}).value == 16
    assert number("-8 C", "tool", {"C": 1}).value == -8
    assert number("91403239 us", "tool", {"us": 1000}).value == 91403239000


@pytest.mark.parametrize("text", ["12 kW", "12", "about 12 W", "12 W 13 W", "0x10 W", "nan W"])
def test_a_number_with_another_unit_is_an_error_that_says_what_was_expected(text: str) -> None:
    reading = number(text, "tool", {"W": 1.0})

    assert reading.state == "error"
    assert f"`{text}`" in reading.detail
    assert "expected a number with `W`" in reading.detail


def test_whole_results_are_integers() -> None:
    assert isinstance(number("300.00 W", "tool", {"W": 1.0}).value, int)


def test_a_reading_without_a_value_state_cannot_hold_one() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        Reading("unknown", 0, "tool")
    with pytest.raises(ValueError, match="cannot hold"):
        Reading("value", None, "tool")


def test_zero_and_false_are_values() -> None:
    assert known(0, "tool").known
    assert known(False, "tool").known


def test_a_later_source_fills_in_for_an_earlier_one_without_a_value() -> None:
    chosen = first_known(not_applicable("NVML", "no"), known(66.84, "smi"))

    assert chosen == known(66.84, "smi")


def test_without_a_value_the_most_telling_state_wins_and_all_reasons_are_kept() -> None:
    chosen = first_known(unknown("a", "silent"), error("b", "hung"), not_applicable("c", "N/A"))

    assert chosen.state == "not_applicable"
    assert chosen.source == "c"
    assert chosen.detail == "a: silent; b: hung; c: N/A"


def test_merging_keeps_keys_of_every_source() -> None:
    joined = merged({"x": known(1, "a"), "y": unknown("a", "-")}, {"y": known(2, "b")})

    assert {key: reading.value for key, reading in joined.items()} == {"x": 1, "y": 2}


def test_a_field_has_exactly_the_documented_parts() -> None:
    reading = known(700, "NVML")

    assert reading.to_field(Spec("W", field.IDENTITY, "power limit")) == {
        "state": "value",
        "value": 700,
        "unit": "W",
        "from": "NVML",
        "severity": "identity",
        "detail": "",
    }
