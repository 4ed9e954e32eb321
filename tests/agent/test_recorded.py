"""Results of a step: counted, and without the values of secrets in whatever quoting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestrator.agent import recorded
from orchestrator.agent.recorded import Settled, settle
from tests.agent.controller import job, run


def test_lines_are_counted_and_left_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "\xff"}\nhalf a li')

    assert settle(str(path), []) == Settled(2)
    assert path.read_bytes() == b'{"a": 1}\n{"b": "\xff"}\nhalf a li'


def test_none_were_recorded(tmp_path: Path) -> None:
    assert settle(str(tmp_path / "results.jsonl"), [b"secret"]) == Settled(0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["hunter2-secret", 'quo"te\\back', "ümläut", "line\nbreak"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_is_masked_however_json_writes_it(
    tmp_path: Path, value: str, ascii_only: bool
) -> None:
    path = tmp_path / "results.jsonl"
    line = json.dumps({"note": f"<{value}>", "n": 1}, ensure_ascii=ascii_only)
    path.write_text(line + "\n", "utf-8")

    assert settle(str(path), [value.encode()]) == Settled(1)

    assert json.loads(path.read_text("utf-8")) == {"note": "<[secret]>", "n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.jsonl"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_an_error_at_once(tmp_path: Path, make: object) -> None:
    path = tmp_path / "results.jsonl"
    make(path)  # type: ignore[operator]

    with pytest.raises(OSError, match=r".+"):
        settle(str(path), [])


LINE = b'{"metric": "e2e", "value": 1.5}\n'


def test_blank_lines_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"\n" + LINE + b"  \r\n" + LINE)

    assert settle(str(path), []).count == 2


class TestTheBound:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recorded, "MAX_BYTES", 1000)
        monkeypatch.setattr(recorded, "MAX_LINE_BYTES", 100)

    def test_a_file_beyond_it_is_cut_behind_a_whole_line(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        path.write_bytes(LINE * 100)

        settled = settle(str(path), [])

        kept = 1000 // len(LINE)
        assert path.read_bytes() == LINE * kept
        assert settled.count == kept
        assert settled.problems == [
            f"of {100 * len(LINE)} bytes those behind the first 1000 are left out"
        ]

    @pytest.mark.parametrize("beyond", [-1, 0, 1])
    def test_one_that_just_fits_is_left_alone(self, tmp_path: Path, beyond: int) -> None:
        path = tmp_path / "results.jsonl"
        body = b"".join(b"%098d\n" % number for number in range(10)) + b"x" * (10 + beyond)
        path.write_bytes(body)

        settled = settle(str(path), [])

        assert settled.count == 10
        assert bool(settled.problems) == (beyond > 0)
        assert path.read_bytes() == (body if beyond <= 0 else body[:990])

    @pytest.mark.parametrize("lines", [9, 10, 11, 30])
    def test_more_lines_than_anybody_reads_are_cut(
        self, tmp_path: Path, lines: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recorded, "MAX_LINES", 10)
        path = tmp_path / "results.jsonl"
        path.write_bytes(b"1\n" * lines)

        settled = settle(str(path), [])

        assert settled.count == min(lines, 10)
        assert path.read_bytes() == b"1\n" * min(lines, 10)
        assert settled.problems == ["lines behind the first 10 are left out"] * (lines > 10)

    @pytest.mark.parametrize("length", [99, 100, 101, 350])
    def test_a_line_that_is_too_long_is_dropped_alone(self, tmp_path: Path, length: int) -> None:
        path = tmp_path / "results.jsonl"
        path.write_bytes(LINE + b"y" * (length - 1) + b"\n" + LINE)

        settled = settle(str(path), [])

        is_kept = length <= 100
        assert settled.count == 2 + is_kept
        assert path.read_bytes().count(b"y") == (length - 1) * is_kept
        assert settled.problems == (
            [] if is_kept else ["1 line is longer than 100 bytes and left out"]
        )

    def test_secrets_are_masked_in_what_is_left(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        path.write_bytes(b'{"note": "hunter2-secret"}\n' * 100)

        settled = settle(str(path), [b"hunter2-secret"])

        assert path.read_bytes() == b'{"note": "[secret]"}\n' * settled.count
        assert settled.count == 1000 // 27


def test_sixty_gigabytes_of_nothing_cost_neither_the_job_nor_its_results(tmp_path: Path) -> None:
    script = (
        f"""echo '{LINE.decode().strip()}' >> "$ORCH_RESULTS"; truncate -s 60G "$ORCH_RESULTS" """
    )

    heard = run(tmp_path / "root", {"a": b"x\n"}, job("big", script), job("next", "true"))

    assert [heard.ended(name)["state"] for name in ("big", "next")] == ["passed", "passed"]
    assert heard.ended("big")["results"] is None
    assert len(heard.bundle) < 1 << 20
    assert heard.notes("error") == [
        "`$ORCH_RESULTS`: 1 line is longer than 16777216 bytes and left out",
        "`$ORCH_RESULTS`: of 64424509440 bytes those behind the first 67108864 are left out",
    ]
