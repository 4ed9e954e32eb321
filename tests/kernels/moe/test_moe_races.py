"""Counts of a race detector: what is judged, and what is no count. The tool itself needs a GPU."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from kernels.backend import BACKEND, Backend
from kernels.moe import races
from kernels.moe.races import NotToldError, Subject, counted, judge

CLEAN = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
ONE = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
MANY = "========= RACECHECK SUMMARY: 100 hazards displayed (121 errors, 0 warnings)\n"
WARNED = "========= RACECHECK SUMMARY: 5 hazards displayed (0 errors, 5 warnings)\n"


@pytest.mark.parametrize(
    ("said", "count"), [(CLEAN, 0), (ONE, 1), (MANY, 121), (WARNED, 5), (ONE + CLEAN, 0)]
)
def test_errors_and_warnings_of_the_last_summary_count(said: str, count: int) -> None:
    assert counted("ok\n" + said, 0) == count


@pytest.mark.parametrize(("said", "code"), [("ok\n", 0), (CLEAN, 1), ("", -9)])
def test_no_last_line_or_a_failed_program_is_no_count(said: str, code: int) -> None:
    with pytest.raises(NotToldError):
        counted(said, code)


def tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the tool, first on the PATH."""
    path = folder / races.SANITIZER
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for the tool is a shell script")
@pytest.mark.parametrize(
    ("said", "reported", "right", "value"),
    [
        (CLEAN, False, True, 0),
        (ONE, False, False, 1),
        (ONE, True, True, 1),
        (CLEAN, True, False, 0),
        (ONE, None, True, 1),
        ("nothing", False, False, None),
        ("nothing", None, False, None),
    ],
)
def test_a_subject_is_judged_by_what_it_must_be(
    said: str,
    reported: bool | None,
    right: bool,
    value: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tool(tmp_path, f"echo '{said.strip()}'", monkeypatch)

    assert judge(Subject("empty", ("kernels.moe.handover",), reported)) is right

    (line,) = [row for row in capsys.readouterr().out.splitlines() if row.startswith("{")]
    told = json.loads(line)
    assert (told["metric"], told["value"]) == ("races.empty", value)
    assert (told["status"] == "ok") == (value is not None)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for the tool is a shell script")
def test_what_is_watched_records_nothing_in_the_place_of_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORCH_RESULTS", str(tmp_path / "results.jsonl"))
    tool(tmp_path, f'echo "results: $ORCH_RESULTS."; echo "{CLEAN.strip()}"', monkeypatch)

    assert judge(Subject("empty", ("kernels.moe.handover",), False))

    assert "results: .\n" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for the tool is a shell script")
def test_a_tool_that_cannot_be_started_is_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "", monkeypatch)
    (tmp_path / races.SANITIZER).write_text("#!/nowhere/sh\n", "utf-8")

    with pytest.raises(NotToldError, match="cannot be started"):
        races.reports(Subject("empty", ("kernels.moe.handover",), False))


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for the tool is a shell script")
def test_a_tool_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "DEADLINE_S", 0.5)
    child = tmp_path / "child"
    tool(tmp_path, f"sleep 600 &\necho $! > {child}\nwait", monkeypatch)

    with pytest.raises(NotToldError, match="no verdict within"):
        races.reports(Subject("empty", ("kernels.moe.handover",), False))

    until = time.monotonic() + 10
    while alive(int(child.read_text("utf-8"))):
        assert time.monotonic() < until, "what the tool had started still runs"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(BACKEND is Backend.GPU, reason="this machine has a GPU to watch")
def test_races_need_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert races.main([]) == 2
    assert "the backend here is" in capsys.readouterr().out
