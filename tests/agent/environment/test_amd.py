from __future__ import annotations

import json

from orchestrator.agent.environment import amd
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.probe import Deadline

from .conftest import FakeHost, fixture_text
from .test_amd_smi import METRIC


def test_a_host_with_amd_smi_is_read_from_all_its_commands(fake_host: FakeHost) -> None:
    fake_host.file("/sys/module/amdgpu/version", "6.16.6\n")
    fake_host.printing(
        "amd-smi",
        {
            "static --json": fixture_text("amd/amd-smi-static-mi210.json"),
            "metric --json": json.dumps([METRIC]),
            "list --json": json.dumps([{"gpu": 0, "bdf": "0000:29:00.0", "uuid": "aaff740f"}]),
            "process --json": fixture_text("amd/amd-smi-process.json"),
            "topology --json": json.dumps([{"gpu": 0, "links": [{"gpu": 0, "link_type": "SELF"}]}]),
            "version --json": "[]",
        },
    )

    findings = amd.look(fake_host.surroundings, Deadline(20))

    (gpu,) = findings.gpus
    assert set(gpu) == set(GPU_KEYS)
    assert (gpu["name"].value, gpu["uuid"].value) == ("AMD Instinct MI210", "aaff740f")
    assert gpu["temperature"].value == 71
    assert len(gpu["processes"].value) == 4
    assert findings.topology["topology.class"].value == "single"
    assert findings.driver["driver.version"].value == "in-tree, kernel 6.14.0-24-generic"
    assert {output.file for output in findings.outputs} == {
        f"amd-smi-{name}.json"
        for name in ("static", "metric", "list", "process", "topology", "version")
    }
    assert findings.driver["driver.kernel_module"].value == "6.16.6"
    assert findings.failure is None


def test_a_cut_answer_is_the_reason_for_what_is_missing(fake_host: FakeHost) -> None:
    fake_host.printing(
        "amd-smi",
        {
            "static --json": fixture_text("amd/amd-smi-static-mi210.json"),
            "metric --json": fixture_text("amd/amd-smi-metric-TRUNCATED.json"),
        },
    )

    findings = amd.look(fake_host.surroundings, Deadline(20))

    (gpu,) = findings.gpus
    assert gpu["name"].value == "AMD Instinct MI210"
    for key in ("utilization", "memory_used", "clock_sm"):
        assert gpu[key].state == "error"
        assert "amd-smi metric: damaged JSON" in gpu[key].detail
    assert any(output.file == "amd-smi-metric.json" for output in findings.outputs)


def test_an_older_host_is_read_with_one_flag_a_call(fake_host: FakeHost) -> None:
    fake_host.printing(
        "rocm-smi",
        {
            "--showproductname --json": '{"card0": {"Card series": "Instinct MI50"}}',
            "--showtemp --json": '{"card0": {"Temperature (Sensor junction) (C)": "38.0"}}',
            "--showmeminfo vram --json": '{"card0": {"VRAM Total Memory (B)": "34342961152"}}',
            "--showdriverversion --json": '{"system": {"Driver version": "5.9.17"}}',
            "--showuse --json": fixture_text("amd/rocm-smi-no-json.txt"),
            "--showtoponuma --json": "GPU[0]\t\t: (Topology) Numa Node: 1\n",
        },
    )

    findings = amd.look(fake_host.surroundings, Deadline(20))

    (gpu,) = findings.gpus
    assert (gpu["name"].value, gpu["temperature"].value) == ("Instinct MI50", 38)
    assert gpu["memory_total"].value == 34342961152
    assert gpu["numa_node"].value == 1
    assert gpu["utilization"].state == "error"
    assert "rocm-smi --showuse: no JSON" in gpu["utilization"].detail
    assert findings.driver["driver.version"].value == "5.9.17"
    assert findings.topology["topology.class"].value == "single"


def test_without_any_tool_the_reason_is_told(fake_host: FakeHost) -> None:
    findings = amd.look(fake_host.surroundings, Deadline(5))

    assert findings.failure is not None
    assert findings.failure.detail == "neither amd-smi nor rocm-smi is installed"


def test_a_refused_command_and_a_hang_are_told_and_marked(fake_host: FakeHost) -> None:
    fake_host.tool(
        "amd-smi",
        f"case $1 in static) trap '' TERM; while :; do sleep 60; done;; esac\n"
        f"echo '{fixture_text('amd/amd-smi-error-version.txt').split(':')[0]}'; exit 246",
    )

    findings = amd.look(fake_host.surroundings, Deadline(1))

    assert findings.hung
    assert findings.failure is not None
    assert "AmdSmiInvalidSubcommandException" in findings.failure.detail
    assert "did not answer within" in findings.failure.detail
