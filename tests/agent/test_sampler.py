"""The sampler against a tool that prints, that fails, that does not listen, and that floods."""

from __future__ import annotations

import os
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from orchestrator.agent import sampler
from orchestrator.agent.environment.surroundings import Surroundings
from orchestrator.agent.sampler import FILE_NAME, Sampler
from tests.agent.controller import ROOT, Controller, job, plan, wait_until

UUID = "GPU-0a81e2c3-ef55-50ce-2b39-fbf55580b530"
REST = f"{UUID}, 1425, 3201, 684.50, 61, 100, 9000, 0x4"


def tool(folder: Path, body: str) -> list[str]:
    """A Python program in the tool's place; `tell()` prints a reading of `ago` seconds ago."""
    path = folder / "tool.py"
    path.write_text(f"import signal, sys, time\nREST = {REST!r}\n{TELL}{body}\n", "utf-8")
    return [sys.executable, "-u", str(path)]


TELL = """
def tell(ago=0):
    at = time.time() - ago
    clock = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(at))
    print(f"{clock}.{int(at % 1 * 1000):03}, {REST}")
"""
PRINTING = "while True:\n    tell()\n    time.sleep(0.02)"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_a_job_saw_is_summed_up_and_every_row_is_kept(tmp_path: Path) -> None:
    watch = Sampler(tool(tmp_path, PRINTING), str(tmp_path / "environment"))
    watch.start()
    (pid,) = watch.pids
    wait_until(lambda: watch.seen([UUID]), "a sample")

    watch.begin()
    wait_until(lambda: len(watch.seen([UUID])) and watch.seen([UUID])[0]["samples"] > 2, "more")
    (told,) = watch.seen([UUID])
    problem = watch.stop()

    assert problem == ""
    assert told["sm_mhz"] == [1425.0, 1425.0, 1425.0]
    assert told["held"] == {"sw_power_cap": 1.0}
    wait_until(lambda: not is_alive(pid), "the tool's end")
    header, *rows = (tmp_path / "environment" / FILE_NAME).read_text("utf-8").splitlines()
    assert header.startswith("at,uuid,sm_mhz")
    assert len(rows) > told["samples"]
    assert all(row.endswith(f"Z,{UUID},1425,3201,684.5,61,100,9000,0x4") for row in rows)


def test_a_job_before_any_sample_has_none(tmp_path: Path) -> None:
    watch = Sampler(tool(tmp_path, "time.sleep(60)"), str(tmp_path))
    watch.start()
    watch.begin()

    assert watch.seen([UUID]) == []
    assert watch.stop() == ""


def test_what_is_told_late_belongs_to_the_job_before(tmp_path: Path) -> None:
    watch = Sampler(tool(tmp_path, "tell(ago=30); tell(ago=-30); time.sleep(60)"), str(tmp_path))
    watch.begin()
    watch.start()
    wait_until(lambda: watch.seen([UUID]), "a sample")
    watch.stop()

    assert watch.seen([UUID])[0]["samples"] == 1
    assert len((tmp_path / FILE_NAME).read_text("utf-8").splitlines()) == 3


def test_a_tool_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    watch = Sampler(tool(tmp_path, "tell(); print('GPU is lost'); sys.exit(15)"), str(tmp_path))
    watch.start()
    wait_until(lambda: watch.seen([UUID]), "a sample")
    (pid,) = watch.pids
    wait_until(lambda: not is_alive(pid), "the tool's end")

    assert "ended by itself: GPU is lost" in watch.stop()


def test_a_tool_that_is_not_there_is_told(tmp_path: Path) -> None:
    watch = Sampler([str(tmp_path / "none")], str(tmp_path))
    watch.start()

    assert watch.pids == ()
    assert "could not be started" in watch.stop()


def test_a_tool_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "_STOP_GRACE_S", 0.2)
    watch = Sampler(
        tool(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PRINTING), str(tmp_path)
    )
    watch.start()
    wait_until(lambda: watch.seen([UUID]), "a sample")
    (pid,) = watch.pids

    watch.stop()

    wait_until(lambda: not is_alive(pid), "the tool's end")


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    body = "sys.stdout.write('x' * 3_000_000)\nprint()\ntell()\ntime.sleep(60)"
    watch = Sampler(tool(tmp_path, body), str(tmp_path))
    watch.start()

    wait_until(lambda: watch.seen([UUID]), "a sample")

    assert watch.stop() == ""


def test_a_long_job_keeps_every_other_sample_and_a_long_run_a_bounded_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MAX_HELD", 10)
    monkeypatch.setattr(sampler, "MAX_ROWS", 30)
    watch = Sampler(tool(tmp_path, "for _ in range(100): tell()\ntime.sleep(60)"), str(tmp_path))
    watch.start()
    rows = tmp_path / FILE_NAME
    wait_until(lambda: rows.exists() and len(rows.read_text("utf-8").splitlines()) > 30, "rows")
    watch.stop()

    assert watch.seen([UUID])[0]["samples"] <= 10
    assert len(rows.read_text("utf-8").splitlines()) == 31


def test_a_folder_that_takes_no_file_is_told_and_the_tool_ended(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    watch = Sampler(tool(tmp_path, PRINTING), str(tmp_path / "file"))
    watch.start()
    (pid,) = watch.pids

    wait_until(lambda: not is_alive(pid), "the tool's end")

    assert "the samples cannot be written" in watch.stop()


FILES = {"data.txt": b"some data\n"}


@pytest.mark.parametrize("env", [{}, {"ORCH_WATCH_GPUS": "0"}], ids=["watched", "left alone"])
def test_a_run_tells_what_each_step_had_and_takes_the_samples_along(
    env: dict[str, str], tmp_path: Path
) -> None:
    gpu = {"index": 0, "uuid": UUID, "name": "fake", "memory_used": 0, "foreign_pids": []}
    code = tmp_path / "code"
    code.mkdir()
    argv = tool(code, PRINTING)
    (code / "sitecustomize.py").write_text(
        f"import sys; sys.path.append({str(ROOT)!r})\n"
        "from orchestrator.agent import conditions, sampler\n"
        f"sampler.command = lambda host: {argv!r}\n"
        f"conditions.list_gpus = lambda: [{gpu!r}]\n",
        "utf-8",
    )
    lasting = job("lasting", "sleep 1 & sleep 0.5", gpus=1)

    with Controller(tmp_path / "root", code=code) as controller:
        controller.push(plan(FILES, lasting, job("alone", "true"), env=env), FILES)
        heard = controller.follow()

    names = zipfile.ZipFile(BytesIO(heard.bundle)).namelist()
    if env:
        assert heard.ended("lasting")["watched"] == []
        assert f"environment/{FILE_NAME}" not in names
        return
    ended = heard.ended("lasting")
    (watched,) = ended["watched"]
    assert ended["state"] == "passed"
    assert ended["leftover"] == ["sleep"]
    assert watched["uuid"] == UUID
    assert watched["held"] == {"sw_power_cap": 1.0}
    assert heard.ended("alone")["watched"] == []
    assert heard.ended("alone")["leftover"] == []
    assert heard.notes("warning") == []
    with zipfile.ZipFile(BytesIO(heard.bundle)) as archive:
        rows = archive.read(f"environment/{FILE_NAME}").decode("utf-8").splitlines()
    assert len(rows) > watched["samples"]
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if argv[-1].encode() in _read(p)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


HELP = "#!/bin/sh\necho '{}'\n"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (
            '"clocks_event_reasons.active" or "clocks_throttle_reasons.active"',
            "clocks_event_reasons",
        ),
        ('"clocks_throttle_reasons.active"', "clocks_throttle_reasons"),
        ("", "clocks_throttle_reasons"),
    ],
)
def test_the_command_asks_for_what_this_driver_knows(said: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: 580", "utf-8")
    (tmp_path / "nvidia-smi").write_text(HELP.format(said), "utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)

    argv = sampler.command(Surroundings(str(tmp_path), str(tmp_path)))

    assert argv is not None
    assert argv[0] == str(tmp_path / "nvidia-smi")
    assert argv[1].startswith("--query-gpu=timestamp,uuid,clocks.sm")
    assert f"memory.used,{field}.active" in argv[1]
    assert argv[-1] == "--loop-ms=500"


def test_a_tool_without_a_driver_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(HELP.format(""), "utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)

    assert sampler.command(Surroundings(str(tmp_path), str(tmp_path))) is None
