from __future__ import annotations

import pytest

from orchestrator.agent.environment import nvidia_smi

from .conftest import answer, fixture_files, fixture_text


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("nvml-version-mismatch.txt", 18, "NVML library version: 550.144"),
        ("driver-not-loaded.txt", 9, "couldn't communicate with the NVIDIA driver"),
        ("no-devices.txt", 6, "No devices were found"),
    ],
)
def test_the_exit_status_decides_before_the_output_is_looked_at(
    name: str, status: int, said: str
) -> None:
    text = fixture_text(f"nvidia-smi/errors/{name}")
    last = text.strip().splitlines()[-1]
    failed = answer(text, f"ended with exit status {status}: {last}", status)

    for report in (nvidia_smi.parse(failed), nvidia_smi.parse_list(failed)):
        assert report.failure is not None
        assert report.failure.state == "error"
        assert said in report.failure.detail
        assert report.gpus == []


@pytest.mark.parametrize("name", fixture_files("nvidia-smi/errors/*", "nvidia-smi/table/*"))
def test_text_where_xml_was_asked_for_is_a_failure_even_with_exit_0(name: str) -> None:
    report = nvidia_smi.parse(answer(fixture_text(name)))

    assert report.failure is not None
    assert "no XML" in report.failure.detail
    assert report.gpus == []


def test_every_form_of_a_lost_gpu_is_a_warning() -> None:
    text = fixture_text("nvidia-smi/errors/gpu-handle-forms.txt")

    assert nvidia_smi.warning_lines(text) == text.strip().splitlines()


def test_a_damaged_inforom_is_a_warning_and_rows_are_not() -> None:
    text = fixture_text("nvidia-smi/errors/infoROM-warning-before-csv.txt")

    assert nvidia_smi.warning_lines(text) == ["WARNING: infoROM is corrupted"]


def test_a_hung_tool_is_an_error_that_says_how_long_was_waited() -> None:
    report = nvidia_smi.parse(answer("", "did not answer within 25 s", None))

    assert report.failure is not None
    assert report.failure.detail == "nvidia-smi did not answer within 25 s"


def test_gpus_are_listed_with_their_mig_devices() -> None:
    report = nvidia_smi.parse_list(answer(fixture_text("nvidia-smi/captures/h200-mig-590/L.txt")))

    (gpu,) = report.gpus
    assert gpu["name"].value == "NVIDIA H200"
    assert [device["name"] for device in gpu["mig_devices"].value] == [
        "1c.3g.71gb",
        "2c.3g.71gb",
        "2g.35gb",
        "1g.18gb",
        "1g.18gb",
    ]


@pytest.mark.parametrize("name", fixture_files("nvidia-smi/captures/*/L.txt", "nvidia-h200/L.txt"))
def test_every_listing_is_read(name: str) -> None:
    text = fixture_text(name)

    report = nvidia_smi.parse_list(answer(text))

    assert report.failure is None
    assert len(report.gpus) == sum(line.startswith("GPU ") for line in text.splitlines())
    listed = [d for gpu in report.gpus if "mig_devices" in gpu for d in gpu["mig_devices"].value]
    assert len(listed) == text.count("  MIG ")


def test_a_lost_gpu_is_left_out_of_the_listing_and_warned_of() -> None:
    text = (
        "Unable to determine the device handle for gpu 0000:34:00.0: Unknown Error\n"
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
    )

    report = nvidia_smi.parse_list(answer(text))

    assert [gpu["uuid"].value for gpu in report.gpus] == ["GPU-1"]
    assert report.warnings == [text.splitlines()[0]]
