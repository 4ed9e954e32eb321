from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from orchestrator.spec.quantity import (
    check_number,
    parse_duration,
    parse_fraction,
    parse_size,
    show_duration,
    show_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("2d", 172800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [90, "90", "10 m", "m10", "", "0s", "-5s", True, None, [1]])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "count"), [("200MB", 200_000_000), ("2GiB", 2**31), ("1.5 kB", 1500), ("7B", 7)]
)
def test_sizes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["200", "200mb", "MB", True, 200, "9000001TB", f"{'9' * 300}TB", f"{'9' * 400}B"]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_size(text)


@pytest.mark.parametrize(("text", "fraction"), [("5%", 0.05), (0.05, 0.05), ("0.5 %", 0.005)])
def test_fractions(text: object, fraction: float) -> None:
    assert parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize(
    "text", ["5", "-5%", "%", None, float("inf"), float("nan"), f"{'9' * 400}%"]
)
def test_what_is_no_fraction_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_fraction(text)


@pytest.mark.parametrize("number", [0, 0.0, -1e300, 10**300 - 1, 5e-324])
def test_numbers_that_compare(number: float) -> None:
    assert check_number(number) == number


@pytest.mark.parametrize("number", [float("inf"), -1.1e300, float("nan")])
def test_numbers_that_do_not_compare_are_refused(number: float) -> None:
    with pytest.raises(PydanticCustomError, match="cannot be compared"):
        check_number(number)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.14, "3.1 s"), (45.4, "45 s"), (750, "12 m 30 s"), (7500, "2 h 05 m")]
)
def test_shown_durations(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (78_073_392, "78.1 MB"), (2e12, "2 TB")]
)
def test_shown_sizes(count: float, text: str) -> None:
    assert show_size(count) == text
