"""Conditions read from snapshots: present, absent, and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import EvidenceError
from orchestrator.verdict import conditions
from orchestrator.verdict.conditions import Field


def snapshot(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({"fields": fields}), "utf-8")


def test_reads_both_snapshots(tmp_path: Path) -> None:
    field = {
        "state": "value",
        "value": 5,
        "unit": "MHz",
        "from": "nvml",
        "severity": "condition",
        "detail": "",
    }
    snapshot(tmp_path / "environment.before.json", **{"gpu.0.clock": field})
    snapshot(tmp_path / "environment.after.json", **{"gpu.0.clock": {**field, "value": 6}})

    found = conditions.read(tmp_path, "cold")

    assert found.get("gpu.0.clock") == Field("value", 5, "MHz", "nvml", "condition")
    assert found.after["gpu.0.clock"].value == 6
    assert found.get("caches") == Field("value", "cold")


def test_what_early_agents_called_identity_is_read_as_it_was_meant(tmp_path: Path) -> None:
    field = {"state": "value", "value": {"0": 1}, "severity": "identity"}
    snapshot(tmp_path / "environment.before.json", **{"numa.memory": field, "cpu.model": field})

    found = conditions.read(tmp_path, "cold")

    assert found.before["numa.memory"].severity == "condition"
    assert found.before["cpu.model"].severity == "identity"


def test_an_absent_snapshot_leaves_everything_unknown(tmp_path: Path) -> None:
    found = conditions.read(tmp_path, "")

    assert found.get("gpu.count").state == "unknown"
    assert found.get("caches").state == "unknown"
    assert found.unmet({"gpu.count": 0}) == "`gpu.count` is unknown, required is `0`"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"fields": 5}',
        b'{"fields": []}',
        b'{"fields": {"x": 5}}',
        b'{"fields": {"x": {"state": "value"}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_snapshot_is_told_with_its_file(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "environment.after.json").write_bytes(text)

    with pytest.raises(EvidenceError, match=r"environment\.after\.json"):
        conditions.read(tmp_path, "cold")


def test_nothing_required_is_met(tmp_path: Path) -> None:
    assert conditions.read(tmp_path, "").unmet({}) == ""
