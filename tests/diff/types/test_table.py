from __future__ import annotations

import pytest

from tests.diff.conftest import Compare

BASE = "id,name,time,size\n1,a,2.0,8 MiB\n2,b,nan,9 MiB\n"


def test_rows_are_matched_by_key_whatever_their_order(compare: Compare) -> None:
    other = "size,id,time,name\n9 MiB,2,nan,b\n8 MiB,1,2.00,a\n"

    record = compare(BASE, other, "x.csv", keys=("id",))

    assert record.status == "equal"
    assert record.note == "the columns stand in another order"


def test_a_column_has_its_own_tolerance(compare: Compare) -> None:
    other = BASE.replace("2.0,8", "2.1,8.1")

    record = compare(BASE, other, "x.csv", columns={"time": 0.1})

    assert record.metrics["cells_within"] == 1
    assert [place.where for place in record.locations] == ["row 2, size"]
    assert record.tolerance == "time: rel 0.1"


def test_a_cell_in_another_unit_is_different(compare: Compare) -> None:
    record = compare(BASE, BASE.replace("8 MiB", "8 GiB"), "x.csv", rel=0.5)

    assert record.status == "different"
    assert (record.locations[0].a, record.locations[0].b) == ("8 MiB", "8 GiB")


def test_nan_and_empty_cells_are_not_numbers(compare: Compare) -> None:
    assert compare(BASE, BASE.replace("nan", ""), "x.csv", abs=100).status == "different"
    assert compare(BASE, BASE.replace("nan", "0"), "x.csv", abs=100).status == "different"
    assert compare(BASE, BASE, "x.csv", nan="different").status == "different"


def test_columns_that_came_and_went_are_a_difference(compare: Compare) -> None:
    record = compare("a,b\n1,2\n", "a,c\n1,2\n", "x.csv")

    assert record.status == "different"
    assert (record.metrics["added_columns"], record.metrics["removed_columns"]) == (1, 1)
    assert record.metrics["changed_rows"] == 0


def test_without_keys_a_row_in_the_middle_does_not_shift_the_rest(compare: Compare) -> None:
    record = compare("n\n1\n2\n3\n", "n\n1\n7\n2\n3\n", "x.csv")

    assert (record.metrics["added_rows"], record.metrics["changed_rows"]) == (1, 0)
    assert record.locations[0].where == "row 3"


def test_tabs_and_semicolons_separate_too(compare: Compare) -> None:
    assert compare("a\tb\n1\t2\n", "a,b\n1,2\n", "x.tsv").status == "equal"
    assert compare("a;b\n1;2\n", "a,b\n1,3\n", "x.csv").metrics["changed_cells"] == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no header"),
        ("a,a\n1,2\n", "column `a` twice"),
        ("id,b\n1\n", "row 2 has 1 cells"),
        ("id,b\n1,2\n1,3\n", "rows 2 and 3 have the key 1"),
        ("x,b\n1,2\n", "no key column `id`"),
        (b"id,b\n\xff,2\n", "not UTF-8"),
        ('id,b\n"1,2\n', "not CSV"),
        ("id,b\n1," + "x" * 200_000 + "\n", "not CSV"),
    ],
)
def test_malformed_tables_are_unreadable(text: str | bytes, reason: str, compare: Compare) -> None:
    record = compare("id,b\n1,2\n", text, "x.csv", keys=("id",))

    assert record.status == "unreadable"
    assert reason in record.note
