from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.diff.limits import Limits
from orchestrator.diff.lines.walk import Walk
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.diff.record import Record
from tests.diff.conftest import Compare

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def places(record: Record) -> dict[str, tuple[str, str]]:
    return {place.where: (place.a, place.b) for place in record.locations}


@given(values)
def test_a_document_equals_itself_through_json(value: object) -> None:
    again = json.loads(json.dumps(value))

    assert Walk(Tolerance(), (), 10_000, 10).compare(value, again).status == "equal"


@given(values, values)
@settings(max_examples=200)
def test_only_equal_documents_are_equal(a: object, b: object) -> None:
    found = Walk(Tolerance(), (), 10_000, 10).compare(a, b)

    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    if same:
        assert found.status == "equal"
    if found.status == "equal":
        assert a == b


def test_items_are_matched_by_their_keys(compare: Compare) -> None:
    a = [{"id": "x", "t": 1}, {"id": "y", "t": 2}]
    b = [{"id": "y", "t": 2}, {"id": "x", "t": 5}, {"id": "z", "t": 3}]

    record = compare(json.dumps(a), json.dumps(b), "x.json", keys=("id",))

    assert places(record) == {"$[id=x].t": ("1", "5"), "$[id=z]": ("", "{2 keys}")}


def test_an_item_in_the_middle_does_not_shift_the_rest(compare: Compare) -> None:
    record = compare("[1, 2, 3, 4]", "[1, 9, 2, 3, 4]", "x.json")

    assert places(record) == {"$[1]": ("", "9")}
    assert record.metrics["added"] == 1


def test_a_changed_item_is_found_beside_an_added_one(compare: Compare) -> None:
    record = compare('[{"a": 1}, {"a": 2}]', '[{"a": 1}, {"a": 3}, {"a": 4}]', "x.json")

    assert places(record) == {"$[1].a": ("2", "3"), "$[2]": ("", "{1 keys}")}


def test_null_absent_zero_false_and_text_are_five_things(compare: Compare) -> None:
    a = {"a": None, "b": 0, "c": False, "d": "0"}
    b = {"b": False, "c": "0", "d": 0}

    record = compare(json.dumps(a), json.dumps(b), "x.json")

    assert record.metrics["removed"] == 1
    assert record.metrics["changed"] == 3
    assert places(record)["$.a"] == ("null", "")


def test_large_whole_numbers_are_not_rounded(compare: Compare) -> None:
    record = compare("[9007199254740993]", "[9007199254740992]", "x.json")

    assert record.status == "different"


def test_json_lines_are_a_list(compare: Compare) -> None:
    record = compare('{"n": 1}\n{"n": 2}\n', '{"n": 1}\n{"n": 3}\n', "x.jsonl")

    assert places(record) == {"$[1].n": ("2", "3")}


def test_yaml_is_of_version_1_2(compare: Compare) -> None:
    record = compare("a: on\nb: 0o7\n", "a: true\nb: 7\n", "x.yaml")

    assert places(record) == {"$.a": ("on", "true")}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("x.json", '{"a": 1, "a": 2}', "stands twice"),
        ("x.json", '{"a": 1}\n{"a":', "not JSON"),
        ("x.json", "[" * 100_000, "deeper"),
        ("x.json", "1" * 5000, "not JSON"),
        ("x.json", b"\xff\xfe\x00", "not UTF-8"),
        ("x.json", "", "not JSON"),
        ("x.yaml", "a: 1\na: 2\n", "not YAML"),
        ("x.yaml", "a: !!python/object/apply:os.system [id]\n", "not YAML"),
        ("x.yaml", "a: \t- b\n  c\n", "not YAML"),
        ("x.yaml", "[" * 3000, "deeper"),
        ("x.yaml", "? [1, 2\n", "not YAML"),
    ],
)
def test_malformed_documents_are_unreadable(
    name: str, text: str | bytes, reason: str, compare: Compare
) -> None:
    record = compare("a: 1\n" if name == "x.yaml" else "{}", text, name, type=name[2:])

    assert record.status == "unreadable"
    assert reason in record.note
    assert record.note.startswith("B: ")


def test_a_yaml_that_multiplies_by_aliases_is_not_followed_to_its_end(compare: Compare) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    one, two = f"l0: &l0 [1]\n{levels}", f"l0: &l0 [2]\n{levels}"

    record = compare(one, two, "x.yaml", limits=Limits(nodes=20_000))

    assert record.status == "skipped"
    assert "more values" in record.note


def test_a_yaml_that_holds_itself_is_refused(compare: Compare) -> None:
    record = compare("&a [*a]", "&a [*a, 1]", "x.yaml")

    assert record.status in ("skipped", "unreadable")
    assert "deeper" in record.note


def test_lone_surrogates_do_not_reach_the_terminal(compare: Compare) -> None:
    record = compare(r'["\ud800"]', r'["\udfff"]', "x.json")

    assert record.status == "different"
    assert record.locations[0].a.encode("utf-8") == rb"\ud800"


def test_values_that_read_alike_are_told_apart_by_their_quotes(compare: Compare) -> None:
    a, b = {"n": 1, "x": None, "t": True, "s": "a"}, {"n": "1", "x": "null", "t": "true", "s": "b"}

    record = compare(json.dumps(a), json.dumps(b), "x.json")

    assert places(record) == {
        "$.n": ("1", '"1"'),
        "$.x": ("null", '"null"'),
        "$.t": ("true", '"true"'),
        "$.s": ("a", "b"),
    }
