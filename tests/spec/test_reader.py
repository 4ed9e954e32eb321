"""Merge keys: read as YAML 1.1 has them, at the same cost for each."""

from __future__ import annotations

from orchestrator.spec.reader import reader

MERGED = """
x-base: &base {a: 1, c: 2}
entries:
  - <<: *base
    a: 5
  - {<<: [*base, {z: 3}], q: 1}
  - <<: *base
"""


def test_a_mapping_takes_over_what_it_does_not_say_itself() -> None:
    read = reader().load(MERGED)

    assert [dict(entry) for entry in read["entries"]] == [
        {"a": 5, "c": 2},
        {"q": 1, "a": 1, "c": 2, "z": 3},
        {"a": 1, "c": 2},
    ]


def test_a_base_does_not_remember_who_took_it_over() -> None:
    """It would be compared with all of them at each further `<<`: 9000 took 78 s, now 1."""
    read = reader().load(MERGED)

    assert read["x-base"]._ref == []
