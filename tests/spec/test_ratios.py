"""Ratios that could say nothing else, refused when the ledger is read."""

from __future__ import annotations

import pytest

from orchestrator.errors import SpecError
from orchestrator.spec.document import parse
from orchestrator.spec.ledger import Ledger, read_ledger


def ledger(*entries: str) -> Ledger:
    """Each entry as `id: what it asks -> its reference`, of which the end may be left out."""
    lines = ["ledger: e", "entries:"]
    for entry in entries:
        asked, _, reference = entry.partition(" -> ")
        ratio = f", ratio_to: {{{reference}}}" if reference else ""
        lines += [
            f"  - {{{asked},",
            f"     expect: {{interval: [1, 2]{ratio}}},",
            "     because: the closed form, source: closed_form}",
        ]
    return read_ledger(parse("\n".join(lines), "l.yaml"))


def refused(*entries: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        ledger(*entries)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    "entries",
    [
        ["id: d, metric: p -> entry: d"],
        ["id: d, compute: p - q, unit: us -> entry: d"],
        ["id: d, metric: p -> metric: p"],
        ["id: d, metric: p, step: s, where: {n: 1} -> metric: p, step: s, where: {n: 1.0}"],
        ["id: d, metric: p, where: {n: 1} -> metric: p, step: s, where: {k: x}"],
        ["id: d, metric: p, step: s -> metric: p"],
        ["id: d, metric: p, where: {n: 1} -> entry: e", "id: e, metric: p, where: {n: 1}"],
        ["id: d, metric: p, where: {n: 1} -> entry: e", "id: e, metric: p"],
    ],
)
def test_a_quantity_to_itself_is_always_1(entries: list[str]) -> None:
    (told,) = refused(*entries)

    assert told.startswith("l.yaml:4:")
    assert " to itself at one point is always 1; expected another quantity" in told
    assert "name another entry" in told or "`ratio_to: {metric: p, where: ...}`" in told


@pytest.mark.parametrize(
    "entries",
    [
        ["id: d, metric: p -> metric: q"],
        ["id: d, metric: p, where: {n: 1} -> metric: p, where: {n: 2}"],
        ["id: d, metric: p, where: {n: 1} -> metric: p, where: {n: true}"],
        ["id: d, metric: p, step: s -> metric: p, step: t"],
        ["id: d, metric: p, step: s -> metric: p, where: {n: 1}"],
        ["id: d, metric: p, where: {n: 1} -> entry: e", "id: e, metric: p, where: {k: 1}"],
        ["id: d, compute: p - q -> metric: p"],
        ["id: a, metric: p -> entry: b", "id: b, metric: q -> entry: c", "id: c, metric: r"],
        ["id: a, metric: p -> entry: c", "id: b, metric: q -> entry: c", "id: c, metric: r"],
    ],
)
def test_ratios_that_can_fail(entries: list[str]) -> None:
    assert len(ledger(*entries).entries) == len(entries)


def test_a_ring_is_told_once_where_it_begins() -> None:
    before = "id: z, metric: o -> entry: b"
    ring = ["id: a, metric: p -> entry: b", "id: b, metric: q -> entry: c"]

    (told,) = refused(before, *ring, "id: c, metric: r -> entry: a")

    assert told.startswith("l.yaml:7:")
    assert "these ratios are a ring: a -> b -> c -> a; expected" in told
    assert "remove one of them" in told


def test_a_ring_of_thousands_is_told() -> None:
    entries = [f"id: e{n}, metric: m{n} -> entry: e{(n + 1) % 2000}" for n in range(2000)]

    (told,) = refused(*entries)

    assert "e1999 -> e0" in told


def test_other_mistakes_are_told_beside_it() -> None:
    told = refused(
        "id: a, metric: p -> entry: a", "id: a, metric: q -> entry: gone", "id: b, metric: r"
    )

    assert [line.partition("; ")[0].partition(" ")[2] for line in told] == [
        "the ratio of `p` to itself at one point is always 1",
        "the id `a` stands twice",
        "no entry has the id `gone`",
    ]
