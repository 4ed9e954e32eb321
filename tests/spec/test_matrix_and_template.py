from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.spec import template
from orchestrator.spec.document import Document
from orchestrator.spec.expand import folder_name
from orchestrator.spec.experiment import Matrix
from orchestrator.spec.matrix import point_id, points, problems


def matrix(**axes: object) -> Matrix:
    return Matrix.model_validate(axes)


def test_points_are_the_product_in_the_order_of_the_file() -> None:
    found = points(matrix(experts=[64, 128], tokens=[512, 1024]))

    assert [tuple(p.values()) for p in found] == [(64, 512), (64, 1024), (128, 512), (128, 1024)]


def test_exclude_removes_every_point_that_has_all_its_values() -> None:
    found = points(matrix(a=[1, 2], b=[1, 2], exclude=[{"a": 1}, {"a": 2, "b": 2}]))

    assert found == ({"a": 2, "b": 1},)


def test_include_adds_points_once() -> None:
    found = points(matrix(a=[1], include=[{"a": 9}, {"a": 9}, {"a": 1}]))

    assert found == ({"a": 1}, {"a": 9})


def test_include_alone_names_the_axes_and_every_point() -> None:
    found = points(matrix(include=[{"a": 1, "b": "x"}, {"b": "y", "a": 2}, {"a": 1, "b": "x"}]))

    assert [list(point.items()) for point in found] == [
        [("a", 1), ("b", "x")],
        [("a", 2), ("b", "y")],
    ]


def test_one_and_true_and_text_are_different_values() -> None:
    found = points(matrix(a=[1, True, "1", 1.0], exclude=[{"a": True}]))

    assert [p["a"] for p in found] == [1, "1", 1.0]
    assert [type(p["a"]) for p in found] == [int, str, float]


class Counted(str):
    """A value that counts how often one like it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_thousands_of_values_are_not_compared_with_each_other() -> None:
    """40,000 values and 25,000 exclusions took more than 40 s to plan, now 7."""
    many = 2000
    values = [Counted(n) for n in range(2 * many)]
    fresh = [{"a": Counted(n)} for n in range(2 * many, 3 * many)]
    one = matrix(a=values, exclude=[{"a": Counted(n)} for n in range(many)], include=fresh * 2)
    Counted.compared = 0

    found = points(one)
    told = list(problems(one, Document("e.yaml", {}, {}, {}), ("matrix",)))

    assert [p["a"] for p in found] == values[many:] + [extra["a"] for extra in fresh]
    assert told == []
    assert Counted.compared < 20 * many


def test_a_mistake_lists_some_values_of_an_axis_of_many() -> None:
    one = matrix(a=list(range(1000)), exclude=[{"a": -1}])

    (told,) = problems(one, Document("e.yaml", {}, {}, {}), ("matrix",))

    assert told.expected.startswith("one of `0`, `1`, ")
    assert told.expected.endswith("`19`, ...")


def test_no_matrix_is_one_point_named_like_the_step() -> None:
    assert points(None) == ({},)
    assert point_id("step", {}) == "step"


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ({"experts": 64, "tokens": 512}, "sweep[experts=64,tokens=512]"),
        ({"flag": True, "rate": 0.5}, "sweep[flag=true,rate=0.5]"),
        ({"name": "two words"}, 'sweep[name="two words"]'),
        ({"name": "a,b]"}, 'sweep[name="a,b]"]'),
        ({"name": ""}, 'sweep[name=""]'),
    ],
)
def test_point_ids_are_readable_and_unambiguous(point: dict[str, object], name: str) -> None:
    assert point_id("sweep", point) == name


def test_folder_names_are_readable_where_they_can_be() -> None:
    assert folder_name("sweep[experts=64,tokens=512]#2") == "sweep@experts=64,tokens=512#2"


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=2, unique=True))
def test_two_jobs_never_share_a_folder(names: list[str]) -> None:
    ids = [point_id("s", {"v": name}) for name in names]

    folders = [folder_name(one).lower() for one in ids]

    assert folders[0] != folders[1]
    assert all(len(folder) <= 110 for folder in folders)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=40, deadline=None)
def test_a_value_reaches_the_program_as_it_was_written(value: str) -> None:
    script = template.fill("printf '%s|' {v} x{v}y; : '{{v}}' ${HOME}", {"v": value})

    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, timeout=20, env={"HOME": "/"}
    )

    assert done.stdout.decode("utf-8") == f"{value}|x{value}y|"


def test_an_argument_list_takes_plain_values() -> None:
    filled = template.fill(("prog", "--name={v}", "{{v}}"), {"v": "a 'b'"})

    assert filled == ["prog", "--name=a 'b'", "{v}"]


def test_double_braces_give_a_literal_brace() -> None:
    assert template.fill("awk '{{print}} ${x} {n}'", {"n": 3}) == "awk '{print} ${x} 3'"


@pytest.mark.parametrize(
    ("script", "quote"),
    [("echo {v}", ""), ("echo '{v}'", "'"), ('echo "{v}"', '"'), ("# it's\necho {v}", "")],
)
def test_knows_the_quotes_around_a_placeholder(script: str, quote: str) -> None:
    (hole,) = template.holes(script)

    assert hole.quote == quote


def test_every_placeholder_knows_its_quotes() -> None:
    script = "a {a} '{b}' \"{c}\" # it's {d}\n\\'{e} '{f}\n{g}' {h}"

    assert [(hole.name, hole.quote) for hole in template.holes(script)] == [
        ("a", ""),
        ("b", "'"),
        ("c", '"'),
        ("d", ""),
        ("e", ""),
        ("f", "'"),
        ("g", "'"),
        ("h", ""),
    ]


def test_a_harmless_value_may_stand_in_quotes() -> None:
    assert template.unsafe_hole("echo '{v}'", {"v": 64}) is None
    assert template.unsafe_hole("echo '{v}'", {"v": "a b"}) is not None
    assert shlex.quote("64") == "64"
