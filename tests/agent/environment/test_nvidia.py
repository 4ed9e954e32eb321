from __future__ import annotations

import pytest

from orchestrator.agent.environment import nvidia, nvidia_nvml, nvidia_smi
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import error
from orchestrator.agent.environment.probe import Deadline
from orchestrator.agent.environment.surroundings import nvidia_traces

from .conftest import FakeHost, answer, fixture_text
from .fake_pynvml import NVMLError, healthy

NOTHING = nvidia_smi.Report()


def nvml_report(fake: object, problem: str = "") -> nvidia_nvml.Report:
    return nvidia_nvml.parse(answer("\n".join(nvidia_nvml.lines(fake)), problem))


def captured() -> nvidia_smi.Report:
    return nvidia_smi.parse(answer(fixture_text("nvidia-h200/nvidia-smi-q.xml")))


def same_gpu(fake: object) -> object:
    fake.values["nvmlDeviceGetUUID"] = "GPU-11111111-2222-3333-4444-555555555555"  # type: ignore[attr-defined]
    return fake


def test_nvml_comes_first_and_the_tool_fills_in() -> None:
    fake = healthy(1)
    fake.values["nvmlDeviceGetTemperature"] = 99
    fake.failures["nvmlDeviceGetVbiosVersion"] = NVMLError(13)

    findings = nvidia.combine(nvml_report(same_gpu(fake)), captured(), NOTHING)

    (gpu,) = findings.gpus
    assert set(gpu) == set(GPU_KEYS)
    assert gpu["temperature"].value == 99
    assert (gpu["vbios"].value, gpu["vbios"].source) == ("96.00.A5.00.1A", "nvidia-smi -q -x")
    assert gpu["architecture"].value == "Hopper"


def test_without_nvml_the_document_gives_every_field_it_has() -> None:
    fake = healthy(1)
    fake.failures["nvmlInit"] = NVMLError(12)

    findings = nvidia.combine(nvml_report(fake), captured(), NOTHING)

    (gpu,) = findings.gpus
    assert findings.driver["driver.version"].value == "580.159.04"
    assert gpu["memory_total"].value == 150754820096
    assert gpu["cores"].state == "error"
    assert findings.failure is None


def test_without_the_tool_nvml_alone_is_enough() -> None:
    hung = nvidia_smi.parse(answer("", "did not answer within 25 s", None))

    findings = nvidia.combine(nvml_report(healthy(1)), hung, NOTHING)

    (gpu,) = findings.gpus
    assert gpu["temperature"].value == 34
    assert gpu["architecture"].state == "error"
    assert gpu["architecture"].detail == "nvidia-smi did not answer within 25 s"


def test_when_both_fail_both_reasons_are_told() -> None:
    fake = healthy(1)
    fake.failures["nvmlInit"] = NVMLError(18)
    mismatch = nvidia_smi.parse(answer("x", "ended with exit status 18: NVML library version", 18))

    findings = nvidia.combine(nvml_report(fake), mismatch, NOTHING)

    assert findings.gpus == []
    assert findings.failure is not None
    assert "version mismatch" in findings.failure.detail
    assert "exit status 18" in findings.failure.detail
    assert findings.driver["driver.version"].state == "error"


def test_a_gpu_nvml_did_not_come_to_is_there_with_the_reason() -> None:
    lines = list(nvidia_nvml.lines(healthy(2)))
    cut = nvidia_nvml.parse(answer("\n".join(lines[:2]), "did not answer within 25 s", None))

    findings = nvidia.combine(cut, NOTHING, NOTHING)

    assert len(findings.gpus) == 2
    assert findings.gpus[1]["temperature"].state == "error"
    assert findings.gpus[1]["temperature"].detail == "NVML did not answer within 25 s"


def test_a_lost_gpu_keeps_its_place_and_its_reason() -> None:
    fake = healthy(2)
    fake.values["nvmlDeviceGetHandleByIndex"] = lambda index: lost() if index else "handle 0"

    def lost() -> object:
        raise NVMLError(15)

    findings = nvidia.combine(nvml_report(fake), NOTHING, NOTHING)

    assert findings.gpus[0]["temperature"].value == 34
    assert findings.gpus[1]["temperature"].detail == "GPU is lost"


def test_mig_names_come_from_the_listing_and_sizes_from_the_document() -> None:
    query = nvidia_smi.parse(answer(fixture_text("nvidia-smi/xml/netdata-a100-sxm4-mig.xml")))
    uuid = query.gpus[0]["uuid"].value
    listing = nvidia_smi.parse_list(
        answer(
            f"GPU 0: NVIDIA A100 (UUID: {uuid})\n"
            "  MIG 3g.20gb     Device  0: (UUID: MIG-a)\n"
            "  MIG 3g.20gb     Device  1: (UUID: MIG-b)\n"
        )
    )

    findings = nvidia.combine(nvidia_nvml.Report(), query, listing)

    assert findings.gpus[0]["mig_devices"].value == [
        {"name": "3g.20gb", "uuid": "MIG-a", "memory_total": 20937965568},
        {"name": "3g.20gb", "uuid": "MIG-b", "memory_total": 20937965568},
    ]


def test_a_driver_that_answers_and_lists_no_gpu_is_not_zero_gpus() -> None:
    findings = nvidia.combine(nvml_report(healthy(0)), NOTHING, NOTHING)

    assert findings.failure is not None
    assert findings.failure.state == "unknown"
    assert findings.failure.detail == "the driver answers and lists no GPU"


@pytest.mark.parametrize(
    ("text", "version", "kind"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 2023",
            "535.54.03",
            "proprietary",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            "580.159.04",
            "open",
        ),
    ],
)
def test_the_loaded_kernel_module_is_told(
    fake_host: FakeHost, text: str, version: str, kind: str
) -> None:
    fake_host.file("/proc/driver/nvidia/version", f"{text}\nGCC version: 12.3.0\n")

    found = nvidia.kernel_module(fake_host.surroundings)

    assert found["driver.kernel_module"].value == version
    assert found["driver.kernel_module_kind"].value == kind


def test_a_host_with_the_tool_only_is_read_whole(fake_host: FakeHost) -> None:
    fake_host.printing(
        "nvidia-smi",
        {
            "-q -x": fixture_text("nvidia-h200/nvidia-smi-q.xml"),
            "-L": fixture_text("nvidia-h200/L.txt"),
            "topo -m": fixture_text("nvidia-h200/topo-m.txt"),
        },
    )
    here = fake_host.surroundings

    findings = nvidia.look(here, nvidia_traces(here), Deadline(20))

    assert [gpu["name"].value for gpu in findings.gpus] == ["NVIDIA H200"]
    assert findings.topology["topology.class"].value == "single"
    assert sorted((output.file, output.exit) for output in findings.outputs) == [
        ("nvidia-smi-L.txt", 0),
        ("nvidia-smi-q.xml", 0),
        ("topo-m.txt", 0),
    ]
    assert not findings.hung


def test_a_tool_that_hangs_and_ignores_term_leaves_errors_and_its_half_output(
    fake_host: FakeHost,
) -> None:
    fake_host.tool(
        "nvidia-smi", "trap '' TERM\necho '<nvidia_smi_log>'\nwhile :; do sleep 60; done"
    )
    here = fake_host.surroundings

    findings = nvidia.look(here, nvidia_traces(here), Deadline(1))

    assert findings.hung
    assert findings.failure is not None
    assert "did not answer within" in findings.failure.detail
    assert findings.topology["topology.class"].state == "error"
    assert {output.content for output in findings.outputs} == {b"<nvidia_smi_log>\n"}
    assert {output.exit for output in findings.outputs} == {None}


def test_the_short_look_asks_the_tool_only_when_nvml_gave_nothing(fake_host: FakeHost) -> None:
    fake_host.printing("nvidia-smi", {"-q -x": fixture_text("nvidia-h200/nvidia-smi-q.xml")})

    findings = nvidia.glance(nvidia_traces(fake_host.surroundings), Deadline(10))

    assert [gpu["memory_total"].value for gpu in findings.gpus] == [150754820096]


def test_a_failed_report_has_a_reason_for_each_driver_key() -> None:
    failed = nvidia_smi.Report(failure=error("nvidia-smi", "ended with exit status 9"))

    findings = nvidia.combine(nvidia_nvml.Report(), failed, NOTHING)

    assert {reading.state for reading in findings.driver.values()} == {"error"}
