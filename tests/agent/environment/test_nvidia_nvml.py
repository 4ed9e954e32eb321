from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.agent.environment import nvidia_nvml
from orchestrator.agent.environment.probe import Answer, Deadline, ask

from .conftest import SLACK_S, answer
from .fake_pynvml import NVMLError, healthy

FAKE_MODULE = """
import time

class NVMLError(Exception):
    value = 3
    def __str__(self):
        return "Not Supported"

def nvmlInit():
    {init}

def nvmlSystemGetDriverVersion():
    return "580.159.04"

def nvmlDeviceGetCount():
    return 2

def nvmlDeviceGetHandleByIndex(index):
    return index

def nvmlDeviceGetUUID(handle):
    if handle == {stuck}:
        time.sleep(60)
    return "GPU-" + str(handle)
"""


def all_lines(module: object) -> Answer:
    return answer("\n".join(nvidia_nvml.lines(module)) + "\n")


def planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, init: str = "return None", stuck: int = -1
) -> None:
    (tmp_path / "pynvml.py").write_text(FAKE_MODULE.format(init=init, stuck=stuck))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def test_what_the_process_prints_is_read_back_whole() -> None:
    report = nvidia_nvml.parse(all_lines(healthy()))

    assert report.failure is None
    assert report.driver["driver.version"].value == "580.159.04"
    assert [gpu["uuid"].value for gpu in report.gpus] == ["GPU-0", "GPU-1"]


@pytest.mark.parametrize(
    ("code", "state"), [(18, "error"), (9, "error"), (12, "error"), (4, "unknown")]
)
def test_a_library_that_does_not_start_is_the_reason_for_everything(code: int, state: str) -> None:
    fake = healthy()
    fake.failures["nvmlInit"] = NVMLError(code)

    report = nvidia_nvml.parse(all_lines(fake))

    assert report.failure is not None
    assert report.failure.state == state
    assert (report.driver, report.gpus) == ({}, [])


def test_a_process_killed_half_way_keeps_what_it_had_said() -> None:
    lines = list(nvidia_nvml.lines(healthy()))
    said = "\n".join([*lines[:2], lines[2][: len(lines[2]) // 2]])

    report = nvidia_nvml.parse(answer(said, "did not answer within 5 s", None))

    assert [gpu["index"].value for gpu in report.gpus] == [0]
    assert report.failure is not None
    assert report.failure.detail == "NVML did not answer within 5 s"


@pytest.mark.parametrize("text", ["", "Segmentation fault", "[1, 2]", "{}", "null"])
def test_garbage_is_a_failure(text: str) -> None:
    report = nvidia_nvml.parse(answer(text, "ended with signal 11", -11))

    assert report.failure is not None
    assert report.failure.state == "error"


def test_the_real_process_finds_pynvml_where_this_process_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, monkeypatch)

    report = nvidia_nvml.parse(ask(nvidia_nvml.command(), Deadline(30)))

    assert report.failure is None
    assert [gpu["uuid"].value for gpu in report.gpus] == ["GPU-0", "GPU-1"]
    assert report.gpus[0]["temperature"].detail == "this version of pynvml does not know the call"


def test_a_gpu_that_hangs_does_not_take_the_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, monkeypatch, stuck=1)
    started = time.monotonic()

    report = nvidia_nvml.parse(ask(nvidia_nvml.command(), Deadline(3)))

    assert time.monotonic() - started < 3 + SLACK_S
    assert [gpu["uuid"].value for gpu in report.gpus] == ["GPU-0"]
    assert report.driver["gpu.count"].value == 2
    assert report.failure is not None
    assert "did not answer within 3 s" in report.failure.detail


def test_without_pynvml_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('no pynvml in this bundle')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    report = nvidia_nvml.parse(ask(nvidia_nvml.command(), Deadline(30)))

    assert report.failure is not None
    assert report.failure.state == "unknown"
    assert "no pynvml in this bundle" in report.failure.detail


def test_pynvml_is_not_imported_into_this_process() -> None:
    script = "import sys; from orchestrator.agent.environment import nvidia_nvml as n; n.command()"

    subprocess.run(
        [sys.executable, "-c", f"{script}; sys.exit('pynvml' in sys.modules)"],
        check=True,
        timeout=60,
    )


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA driver")
def test_the_real_pynvml_without_a_driver_says_so() -> None:
    pytest.importorskip("importlib.metadata").version("nvidia-ml-py")

    report = nvidia_nvml.parse(ask(nvidia_nvml.command(), Deadline(30)))

    assert report.failure is not None
    assert "NVML Shared Library Not Found" in report.failure.detail
