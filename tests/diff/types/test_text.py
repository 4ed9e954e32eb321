from __future__ import annotations

import codecs

from orchestrator.diff.limits import Limits
from tests.diff.conftest import Compare


def test_behind_masks_equal_is_not_called_equal(compare: Compare) -> None:
    record = compare("at 10:00:00 pid 7\n", "at 10:00:09 pid 9\n", "log")

    assert record.status == "equal_after_masks"
    assert dict(record.masks) == {"timestamp": 1, "pid": 1}
    assert record.metrics["masked_lines"] == 1


def test_a_changed_number_is_placed_in_its_line(compare: Compare) -> None:
    record = compare("a\nloss 0.5 lr 1\nb\n", "new\na\nloss 0.6 lr 1\nb\n", "x.log")

    assert record.status == "different"
    assert record.metrics["changed_numbers"] == 1
    assert record.metrics["added_lines"] == 1
    places = {place.where: (place.a, place.b) for place in record.locations}
    assert places["line 2 / 3"] == ("loss 0.5 lr 1", "loss 0.6 lr 1")
    assert places["line - / 1"] == ("", "new")


def test_numbers_inside_the_tolerance_do_not_hide_those_outside(compare: Compare) -> None:
    record = compare("a 1.00\nb 2\n", "a 1.001\nb 3\n", "x.log", rel=0.01)

    assert record.status == "different"
    assert record.metrics["numbers_within"] == 1
    assert record.metrics["changed_numbers"] == 1


def test_a_rule_may_hide_more(compare: Compare) -> None:
    record = compare("seed 1\n", "seed 2\n", "x.log", masks=(r"seed \d+",))

    assert record.status == "equal_after_masks"
    assert dict(record.masks) == {r"rule: seed \d+": 1}


def test_windows_files_compare_with_others(compare: Compare) -> None:
    record = compare(codecs.BOM_UTF16_LE + "a\r\n".encode("utf-16-le"), "a\n", "x.txt")

    assert record.status == "equal_after_masks"
    assert dict(record.masks) == {"line end": 1}


def test_bytes_that_are_no_utf8_are_shown_and_compared(compare: Compare) -> None:
    record = compare(b"caf\xe9\n", b"caf\xe8\n", "x.log")

    assert record.status == "different"
    assert (record.locations[0].a, record.locations[0].b) == (r"caf\xe9", r"caf\xe8")


def test_a_line_of_megabytes_is_compared_and_shown_short(compare: Compare) -> None:
    record = compare("x" * 5_000_000 + "1\n", "x" * 5_000_000 + "2\n", "x.log")

    assert record.status == "different"
    assert len(record.locations[0].a) < 300
    assert "5000001 characters" in record.locations[0].a


def test_more_than_the_limit_is_skipped(compare: Compare) -> None:
    record = compare("a\n" * 60, "b\n" * 60, "x.log", limits=Limits(text_bytes=100))

    assert record.status == "skipped"
    assert "120 bytes" in record.note


def test_only_the_first_places_are_kept_and_the_rest_counted(compare: Compare) -> None:
    a = "".join(f"line {n}a\n" for n in range(50))
    b = "".join(f"line {n}b\n" for n in range(50))

    record = compare(a, b, "x.log")

    assert len(record.locations) + record.more == 50
    assert len(record.locations) == 10
