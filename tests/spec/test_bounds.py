"""YAML that would exhaust its reader is refused at the line that asks for too much."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.errors import Problem, SpecError
from orchestrator.spec.bounds import MAX_DEPTH
from orchestrator.spec.document import parse


def refused(text: str) -> Problem:
    with pytest.raises(SpecError) as told:
        parse(text, "e.yaml")
    (problem,) = told.value.problems
    return problem


def listed(levels: int) -> str:
    return "a: 1\nx-d: " + "[" * levels + "]" * levels


def mapped(levels: int) -> str:
    return "a: 1\nx-d: " + "{k: " * levels + "v" + "}" * levels


def indented(levels: int) -> str:
    return "a: 1\n" + "".join(f"{'':{level}}x-k:\n" for level in range(levels)) + " " * levels + "v"


def dashed(levels: int) -> str:
    return "a: 1\nx-d:\n  " + "- " * levels + "v"


def chained(levels: int) -> str:
    """Each line is one level deeper than the one above, which it names."""
    lines = [f"x-{n}: &a{n} [*a{n - 1}]" for n in range(1, levels)]
    return "\n".join(["x-0: &a0 []", *lines, "a: 1"])


@pytest.mark.parametrize("levels", [MAX_DEPTH, 3000])
@pytest.mark.parametrize(
    ("make", "line"), [(listed, 2), (mapped, 2), (indented, MAX_DEPTH + 1), (dashed, 3)]
)
def test_what_is_nested_too_deep_is_told_with_its_place(
    make: Callable[[int], str], line: int, levels: int
) -> None:
    problem = refused(make(levels))

    assert "nested more than 100 levels deep" in problem.what
    assert problem.line == line
    assert problem.column > 100 - len("x-k:")
    assert problem.expected
    assert problem.fix


@pytest.mark.parametrize("make", [listed, mapped, indented, dashed])
def test_what_is_nested_as_deep_as_it_may_be_is_read(make: Callable[[int], str]) -> None:
    assert parse(make(MAX_DEPTH - 2), "e.yaml").data["a"] == 1


def test_depth_is_counted_through_aliases() -> None:
    assert parse(chained(MAX_DEPTH - 2), "e.yaml").data == {"a": 1}
    problem = refused(chained(3000))

    assert "nested more than 100 levels deep" in problem.what
    assert problem.line == MAX_DEPTH


@pytest.mark.parametrize("text", ["env: &e {a: *e}\n", "x-e: &e\n  - [*e]\n"])
def test_an_alias_inside_what_it_names_is_refused(text: str) -> None:
    problem = refused(text)

    assert "the alias `*e` stands inside what it names" in problem.what
    assert problem.column > 1


def test_a_name_given_twice_means_the_nearest_above() -> None:
    assert parse("x-a: &e [1]\nb: *e\nx-c: &e [2]\nd: *e\n", "e.yaml").data == {"b": [1], "d": [2]}
