from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.errors import SpecError
from orchestrator.spec.document import load, parse


def test_knows_where_every_key_and_value_stands() -> None:
    document = parse("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml")

    assert document.place(("a",)) == (1, 4)
    assert document.place(("a",), of_key=True) == (1, 1)
    assert document.place(("b", 0)) == (3, 5)
    assert document.place(("b", 1, "c")) == (4, 9)


def test_an_absent_path_is_placed_at_what_surrounds_it() -> None:
    document = parse("a:\n  b: 1\n", "f.yaml")

    assert document.place(("a", "missing", "deeper")) == document.place(("a",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("010", 10),
        ("1_000", 1000),
        ("0x10", 16),
        ("1e3", 1000.0),
        ("22:22", "22:22"),
        ("2026-11-29", "2026-11-29"),
        ("~", None),
        ("'8'", "8"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    data = parse(f"k: {text}\n", "f.yaml").data

    assert data["k"] == value
    assert type(data["k"]) is type(value)


def test_keys_that_start_with_x_are_the_users_own() -> None:
    document = parse("x-note: anything\na: {x-b: 1, c: 2}\n", "f.yaml")

    assert document.data == {"a": {"c": 2}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nowhere\.yaml: cannot read the file"):
        load(tmp_path / "nowhere.yaml")


def test_what_is_no_plain_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(SpecError, match="this is no file; expected a plain file"):
            load(path)


def test_a_file_through_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n", "utf-8")
    (tmp_path / "link.yaml").symlink_to("a.yaml")

    assert load(tmp_path / "link.yaml").data == {"a": 1}


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 33)

    with pytest.raises(SpecError, match=r"large\.yaml:1:1: the file is too large; expected"):
        load(path)


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    assert load(path).data == {"a": 1, "b": 2}


def test_anchors_and_aliases_are_expanded() -> None:
    document = parse("a: &x {n: 1}\nb: *x\n", "f.yaml")

    assert document.data["b"] == {"n": 1}


@pytest.mark.parametrize("text", ["a: [1, 2", "a: b: c", "a: 'open", "%bad"])
def test_what_is_not_yaml_is_an_error_with_a_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"f\.yaml:1:\d+: "):
        parse(text, "f.yaml")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("!!int abc", "`abc` is no int"),
        ("!!int ''", "`` is no int"),
        ("!!float x", "`x` is no float"),
        ("!!bool x", "`x` is no bool"),
        ("0x_", "`0x_` is no int"),
        ("2026-02-30", "`2026-02-30` is no timestamp"),
        ("2026-02-03T99:00:00Z", "`2026-02-03T99:00:00Z` is no timestamp"),
        ("9" * 5000, f"`{'9' * 40}...` is too large"),
        ('"\\U99999999"', "no character: "),
        ("!!omap [a: 1, a: 2]", "a sequence is no omap"),
        ("{? [[b]] : 1}", "a key of this mapping is made of lists or mappings"),
    ],
)
def test_a_value_that_is_not_what_it_says_is_told_with_its_line(value: str, words: str) -> None:
    with pytest.raises(SpecError) as told:
        parse(f"a: 1\nb:\n  - {value}\nc: 2\n", "e.yaml")

    (problem,) = told.value.problems
    assert words in problem.what
    assert problem.line == 3


@pytest.mark.parametrize(("character", "name"), [("\0", "U+0000"), ("\x07", "U+0007")])
def test_a_character_that_yaml_forbids_is_named_with_its_place(character: str, name: str) -> None:
    with pytest.raises(SpecError, match="may not stand in YAML") as told:
        parse(f"experiment: x\nsteps:\n  - run: e{character}cho\n", "e.yaml")

    (problem,) = told.value.problems
    assert (problem.line, problem.column) == (3, 11)
    assert name in problem.what


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        ('a:\n  - "x\\0y"\n', (2, 5), "a zero byte"),
        ('a: "\\uD800"\n', (1, 4), "U+D800"),
        ('a: 1\n"b\\0": 2\n', (2, 1), "a zero byte"),
    ],
)
def test_a_text_that_no_command_line_can_hold_is_told(
    text: str, place: tuple[int, int], name: str
) -> None:
    with pytest.raises(SpecError, match="which no program can be given") as told:
        parse(text, "e.yaml")

    (problem,) = told.value.problems
    assert (problem.line, problem.column) == place
    assert name in problem.what


def test_a_tag_of_another_language_constructs_nothing() -> None:
    document = parse("a: !!python/object/apply:os.system [touch, x]\n", "f.yaml")

    assert document.data == {"a": ["touch", "x"]}


@pytest.mark.parametrize("rest", ["", " ", "  # later", "\n  # later"])
def test_a_value_that_is_missing_is_placed_at_its_key(rest: str) -> None:
    document = parse(f"a: 1\nb:\n  c:{rest}\n\n  d: ~\ne: 2\n", "f.yaml")

    assert document.place(("b", "c")) == (3, 3)
    assert document.data["b"] == {"c": None, "d": None}
    line, column = document.place(("b", "d"))
    assert (line, column) == (5 + rest.count("\n"), 6)
