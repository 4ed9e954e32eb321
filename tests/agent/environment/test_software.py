from __future__ import annotations

import json
import os
import sys

import pytest

from orchestrator.agent.environment import software
from orchestrator.agent.environment.probe import Deadline, ask

from .conftest import FakeHost, answer

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""


def report(**changes: object) -> str:
    parts: dict[str, object] = {
        "executable": "/venv/bin/python",
        "version": "3.12.3",
        "implementation": "cpython",
        "prefix": "/venv",
        "all": ["numpy==2.3.5", "torch==2.11.0"],
        "versions": {"torch": "2.11.0+cu130", "numpy": "2.3.5", "nvidia-nccl-cu13": "2.28.9"},
        "torch_build": {"__version__": "2.11.0+cu130", "cuda": "13.0", "hip": None, "debug": False},
        "problems": [],
    }
    return json.dumps({**parts, **changes})


def test_the_interpreter_of_the_steps_is_asked_in_its_own_environment() -> None:
    command = software.packages_command([sys.executable], dict(os.environ), "/")

    found = software.package_readings(ask(command, Deadline(30)))

    assert set(found) == set(software.PACKAGE_KEYS)
    assert found["python.version"].value == ".".join(map(str, sys.version_info[:3]))
    assert found["python.prefix"].value == sys.prefix
    assert len(found["python.packages_sha256"].value) == 64


def test_versions_are_told_as_found() -> None:
    found = software.package_readings(answer(report()))

    assert found["torch.version"].value == "2.11.0+cu130"
    assert found["torch.cuda"].value == "13.0"
    assert found["torch.debug"].value is False
    assert found["nccl.version"].value == "2.28.9"
    assert found["torch.hip"].state == "not_applicable"
    assert found["torch.git"].state == "unknown"


def test_a_package_that_is_not_installed_is_not_applicable() -> None:
    found = software.package_readings(answer(report(versions={}, torch_build=None)))

    assert found["torch.version"].state == "not_applicable"
    assert found["torch.version"].detail == "torch is not installed for this interpreter"
    assert found["nccl.version"].state == "not_applicable"


def test_a_torch_without_metadata_is_known_by_its_version_file() -> None:
    found = software.package_readings(answer(report(versions={})))

    assert found["torch.version"].value == "2.11.0+cu130"
    assert found["torch.version"].source == "torch/version.py"


def test_a_missing_library_beside_a_cuda_torch_is_unknown_not_absent() -> None:
    found = software.package_readings(answer(report()))

    assert found["cudnn.version"].state == "unknown"
    assert "one of the system is not looked for" in found["cudnn.version"].detail


def test_two_generations_of_a_library_are_both_told() -> None:
    versions = {"nvidia-nccl-cu12": "2.27.3", "nvidia-nccl-cu13": "2.28.9"}

    found = software.package_readings(answer(report(versions=versions)))

    assert found["nccl.version"].value == "nvidia-nccl-cu12 2.27.3, nvidia-nccl-cu13 2.28.9"


def test_damaged_metadata_is_an_error() -> None:
    broken = report(versions={}, torch_build=None, problems=["triton: no version in the metadata"])

    assert software.package_readings(answer(broken))["triton.version"].state == "error"


def test_what_the_start_of_the_interpreter_prints_is_skipped() -> None:
    found = software.package_readings(answer("sitecustomize says hello\n" + report() + "\n"))

    assert found["python.version"].value == "3.12.3"


@pytest.mark.parametrize(
    ("text", "problem", "said"),
    [
        ("", "ended with exit status 127: not found", "exit status 127"),
        ("", "did not answer within 10 s", "did not answer within 10 s"),
        ("Segmentation fault", "", "printed no report"),
        ("{'not': json", "", "printed no report"),
    ],
)
def test_an_interpreter_that_fails_makes_every_field_an_error(
    text: str, problem: str, said: str
) -> None:
    found = software.package_readings(answer(text, problem))

    assert set(found) == set(software.PACKAGE_KEYS)
    assert {reading.state for reading in found.values()} == {"error"}
    assert said in found["torch.version"].detail


def test_nvcc_tells_its_version() -> None:
    found = software.nvcc_readings(answer(NVCC))

    assert found["cuda.nvcc"].value == "13.0.88"


def test_without_nvcc_there_is_no_toolkit_to_build_with() -> None:
    assert software.nvcc_readings(None)["cuda.nvcc"].state == "not_applicable"


def test_a_failing_nvcc_is_an_error_and_not_absent() -> None:
    found = software.nvcc_readings(answer("", "ended with exit status 1: no such file", 1))

    assert found["cuda.nvcc"].state == "error"


def test_nvcc_is_looked_for_where_a_build_step_would_find_it(fake_host: FakeHost) -> None:
    tool = fake_host.tool("nvcc", "true")
    home = fake_host.root / "usr/local/cuda/bin"
    home.mkdir(parents=True)
    (home / "nvcc").write_text("#!/bin/sh\n")
    (home / "nvcc").chmod(0o755)
    here = fake_host.surroundings

    assert software.find_nvcc({"PATH": str(fake_host.bin)}, here) == str(tool)
    assert software.find_nvcc({"PATH": "/nonexistent"}, here) == str(home / "nvcc")


def test_rocm_is_known_by_its_version_file(fake_host: FakeHost) -> None:
    assert software.rocm_reading({}, fake_host.surroundings).state == "not_applicable"

    fake_host.file("/opt/rocm/.info/version", "7.2.0-98\n")

    assert software.rocm_reading({}, fake_host.surroundings).value == "7.2.0-98"
