"""Tolerances of `compare` are numbers that a difference can exceed."""

from __future__ import annotations

import pytest

from orchestrator.errors import SpecError
from orchestrator.spec.compare import CompareRule
from orchestrator.spec.document import parse
from orchestrator.spec.model import validate


@pytest.mark.parametrize("key", ["abs", "rel", "rel_l2", "pixels"])
@pytest.mark.parametrize("value", [".inf", ".nan", "1e400"])
def test_a_tolerance_is_finite(key: str, value: str) -> None:
    with pytest.raises(SpecError, match=rf"r\.yaml:2:\d+: {key}.* finite number"):
        validate(CompareRule, parse(f"path: out/*\n{key}: {value}\n", "r.yaml"))


def test_a_tolerance_of_a_column_is_finite() -> None:
    with pytest.raises(SpecError, match=r"r\.yaml:2:14: columns\.a is `inf`"):
        validate(CompareRule, parse("path: a.csv\ncolumns: {a: .inf}\n", "r.yaml"))


def test_a_distance_in_ulps_fits_into_64_bits() -> None:
    rule = validate(CompareRule, parse(f"path: a.npy\nulp: {2**63 - 1}\n", "r.yaml"))

    assert rule.ulp == 2**63 - 1
    with pytest.raises(SpecError, match=r"r\.yaml:2:6: ulp is"):
        validate(CompareRule, parse(f"path: a.npy\nulp: {2**63}\n", "r.yaml"))
