"""Results of a step: counted, and without the values of secrets in whatever quoting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestrator.agent.recorded import settle


def test_lines_are_counted_and_left_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "\xff"}\nhalf a li')

    assert settle(str(path), []) == 2
    assert path.read_bytes() == b'{"a": 1}\n{"b": "\xff"}\nhalf a li'


def test_none_were_recorded(tmp_path: Path) -> None:
    assert settle(str(tmp_path / "results.jsonl"), [b"secret"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["hunter2-secret", 'quo"te\\back', "ümläut", "line\nbreak"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_is_masked_however_json_writes_it(
    tmp_path: Path, value: str, ascii_only: bool
) -> None:
    path = tmp_path / "results.jsonl"
    line = json.dumps({"note": f"<{value}>", "n": 1}, ensure_ascii=ascii_only)
    path.write_text(line + "\n", "utf-8")

    assert settle(str(path), [value.encode()]) == 1

    assert json.loads(path.read_text("utf-8")) == {"note": "<[secret]>", "n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.jsonl"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_an_error_at_once(tmp_path: Path, make: object) -> None:
    path = tmp_path / "results.jsonl"
    make(path)  # type: ignore[operator]

    with pytest.raises(OSError, match=r".+"):
        settle(str(path), [])
