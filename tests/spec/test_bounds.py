"""YAML that would exhaust its reader is refused at the line that asks for too much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import Problem, SpecError
from orchestrator.spec import bounds
from orchestrator.spec.bounds import MAX_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_VALUES
from orchestrator.spec.document import parse
from orchestrator.spec.expand import prepare
from orchestrator.spec.hosts import load_hosts


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


def laughing(levels: int, times: int = 9) -> str:
    """A value that holds `times` of the one above, level by level."""
    lines = [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * times)}]" for n in range(1, levels)]
    return "\n".join(["x-0: &a0 [1]", *lines, f"n: *a{levels - 1}"])


def doubling(levels: int) -> str:
    lines = [f"x-{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}" for n in range(1, levels)]
    return "\n".join(["x-0: &a0 {k: v}", *lines, f"env: *a{levels - 1}"])


def merging(levels: int) -> str:
    lines = [f"x-{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, levels)]
    return "\n".join(["x-0: &a0 {k: v}", *lines, f"env: *a{levels - 1}"])


def repeating(characters: int) -> str:
    """One long text, named often."""
    return f"x-t: &t {'y' * characters}\nn: [{', '.join(['*t'] * 1000)}]"


@pytest.mark.parametrize(
    ("text", "line"),
    [(laughing(29), 7), (doubling(24), 15), (merging(30), 15), (repeating(60_000), 2)],
    ids=["lists", "mappings", "merges", "texts"],
)
def test_aliases_that_name_too_much_are_told_before_anything_expands_them(
    text: str, line: int
) -> None:
    problem = refused(text)

    assert f"more than {MAX_VALUES} values" in problem.what
    assert problem.line == line
    assert problem.column > 1
    assert problem.fix


def test_values_are_counted_without_aliases_too() -> None:
    """Each takes some 50 us to be read, whatever it is."""
    problem = refused(f"a: 1\nx-d: [{'1,' * MAX_VALUES}]\n")

    assert f"more than {MAX_VALUES} values" in problem.what
    assert problem.line == 2


def test_a_ledger_of_five_thousand_entries_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of one, under a tenth of the bounds."""
    monkeypatch.setattr(bounds, "MAX_VALUES", MAX_VALUES // 10)
    entry = (
        "- {id: e%d, metric: l0.fused, step: sweep, where: {experts: 64, tokens: %d}, unit: us, "
        "expect: {value: 640, rel: 5%%}, because: the closed form says so, source: closed_form}\n"
    )
    text = "ledger: e\nentries:\n" + "".join(entry % (n, n) for n in range(500))

    assert len(parse(text, "l.yaml").data["entries"]) == 500
    assert len(text) <= MAX_BYTES // 10


@pytest.mark.parametrize("text", [laughing(5), doubling(12), repeating(1000)])
def test_aliases_that_name_much_are_read(text: str) -> None:
    assert parse(text, "e.yaml").data


def test_hosts_and_ledgers_have_the_same_bound(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(f"{laughing(29)}\nhosts: {{}}\n", "utf-8")
    (tmp_path / "e.ledger.yaml").write_text(f"{laughing(29)}\nledger: e\n", "utf-8")
    experiment = tmp_path / "e.yaml"
    experiment.write_text(
        "experiment: e\nkind: probe\ntimeout: 1s\nledger: e.ledger.yaml\n"
        "steps:\n  - {id: a, run: 'true'}\n",
        "utf-8",
    )

    with pytest.raises(SpecError, match=r"hosts\.yaml:7:\d+: with all aliases written out"):
        load_hosts([tmp_path / "hosts.yaml"])
    with pytest.raises(SpecError, match=r"ledger\.yaml:7:\d+: with all aliases written out"):
        prepare(experiment)


@pytest.mark.parametrize("text", ["env: &e {a: *e}\n", "x-e: &e\n  - [*e]\n"])
def test_an_alias_inside_what_it_names_is_refused(text: str) -> None:
    problem = refused(text)

    assert "the alias `*e` stands inside what it names" in problem.what
    assert problem.column > 1


def test_a_name_given_twice_means_the_nearest_above() -> None:
    assert parse("x-a: &e [1]\nb: *e\nx-c: &e [2]\nd: *e\n", "e.yaml").data == {"b": [1], "d": [2]}


HUGE = {
    "hexadecimal": f"0x{'F' * 5000}",
    "negative": f"-0x{'f' * 5000}",
    "octal": f"0o{'7' * 6000}",
    "binary": f"0b{'1' * 20_000}",
    "decimal": "9" * 5000,
    "no float": "9" * 400,
    "one too large": f"1{'0' * MAX_DIGITS}",
}


@pytest.mark.parametrize("written", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize(
    "where", ["a: 1\ngpus: {}", "a:\n  - {}", "a:\n  ? {}\n  : 1", "a: 1\nx-a: {}"]
)
def test_a_whole_number_that_compares_with_nothing_is_told(where: str, written: str) -> None:
    problem = refused(where.format(written))

    assert "the whole number `" in problem.what
    assert "is too large" in problem.what
    assert problem.line == 2
    assert problem.column > 1
    assert problem.expected == "at most 300 digits"
    assert problem.fix


def test_the_largest_whole_number_is_read() -> None:
    largest = 10**MAX_DIGITS - 1

    read = parse(f"a: {largest}\nb: -{largest}\nc: {largest:#x}\n{largest}: d\n", "e.yaml")

    assert read.data == {"a": largest, "b": -largest, "c": largest, str(largest): "d"}


def test_base_60_is_not_converted_before_it_is_refused() -> None:
    """In YAML 1.1, that has it, a million parts took minutes."""
    problem = refused(f"%YAML 1.1\n---\na: 1{':59' * 100_000}\n")

    assert "is too large" in problem.what
    assert (problem.line, problem.column) == (3, 4)
