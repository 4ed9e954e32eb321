"""What changed between two rounds: nothing that `orch diff` calls identity is left out."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.store.record import Tree
from orchestrator.verdict import changes
from orchestrator.verdict.conditions import Conditions, Field
from tests.verdict.runs import record


def fact(value: Any, severity: str = "identity", unit: str = "") -> Field:
    return Field("value", value, unit, severity=severity)


def told(
    old: dict[str, Field],
    new: dict[str, Field],
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> tuple[str, ...]:
    """The changes from run `r1` to run `r2`, both with one fact that is the same."""
    same = {"os.name": fact("Linux")}
    return changes.between(
        record("r1", **(before or {})),
        Conditions({**same, **old}),
        record("r2", **(after or {})),
        Conditions({**same, **new}),
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (fact("1"), fact("2"), "x 1 → 2"),
        (fact(True), fact(False), "x true → false"),
        (fact(1, unit="W"), fact(2, unit="W"), "x 1 W → 2 W"),
        (fact("v"), Field("unknown", severity="identity"), "x v → unknown"),
        (fact(["a", "b"]), fact(["a", "c"]), "x -b +c"),
        (fact("f" * 64), fact("f" * 63 + "0"), "x changed"),
    ],
)
def test_a_fact_that_is_identity_is_told(old: Field, new: Field, words: str) -> None:
    assert told({"x": old}, {"x": new}) == (words,)


def test_a_variable_of_the_steps_is_identity_too() -> None:
    name = "env.OMP_NUM_THREADS"

    assert told({name: fact("1")}, {name: fact("2")}) == (f"{name} 1 → 2",)
    assert told({}, {name: fact("2")}) == (f"{name} absent → 2",)
    assert told({name: fact("2")}, {}) == (f"{name} 2 → absent",)


def test_the_file_system_is_identity_and_its_free_bytes_are_not() -> None:
    old = {"disk.filesystem": fact("ext4"), "disk.free": fact(1, "condition")}
    new = {"disk.filesystem": fact("nfs"), "disk.free": fact(2, "condition")}

    assert told(old, new) == ("disk.filesystem ext4 → nfs",)


def test_a_runs_own_folder_in_a_value_is_no_change() -> None:
    old = {"env.CACHE": fact("/runs/r1/caches"), "paths": fact(["/runs/r1"])}
    new = {"env.CACHE": fact("/runs/r2/caches"), "paths": fact(["/runs/r2"])}

    assert told(old, new) == ()


def test_kept_caches_are_one_change_with_all_their_paths() -> None:
    old = {"env.CACHE": fact("/runs/r1/caches")}
    new = {"env.CACHE": fact("/caches")}

    assert told(old, new, {"caches": "isolated"}, {"caches": "kept"}) == ("caches isolated → kept",)
    assert told(old, new) == ("env.CACHE /runs/r1/caches → /caches",)


def test_code_and_host_come_first() -> None:
    found = told(
        {"a": fact(1)}, {"a": fact(2)}, {"host": "one"}, {"host": "two", "tree": Tree(local="b")}
    )

    assert found == ("code", "host one → two", "a 1 → 2")


def test_a_snapshot_that_did_not_come_home_is_one_change() -> None:
    found = changes.between(
        record("r1"), Conditions({"a": fact(1), "b": fact(2)}), record("r2"), Conditions()
    )

    assert found == ("no snapshot of the host in r2",)
