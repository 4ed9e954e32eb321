from __future__ import annotations

import os
import shutil

import pytest

from orchestrator.agent.environment import cpu
from orchestrator.agent.environment.probe import Command, Deadline, ask
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost, answer, fixture_text

CPUINFO = """processor\t: 0
model name\t: Imaginary CPU 9000
microcode\t: 0x2b000603
cpu MHz\t\t: 2000.000
flags\t\t: fpu avx avx2 avx512f amx_tile hypervisor

processor\t: 1
model name\t: Imaginary CPU 9000
cpu MHz\t\t: 3000.000

"""


def test_the_captured_lscpu_of_a_gpu_host_is_understood(fake_host: FakeHost) -> None:
    captured = answer(fixture_text("nvidia-h200/lscpu.json"))

    found = cpu.readings(fake_host.surroundings, captured)

    assert found["cpu.model"].value == "Intel(R) Xeon(R) Processor"
    assert (found["cpu.sockets"].value, found["cpu.cores"].value) == (1, 16)
    assert {"avx512_bf16", "amx_bf16", "avx512_fp16"} <= set(found["cpu.features"].value)


def test_newer_lscpu_nests_its_fields() -> None:
    text = """{"lscpu": [{"field": "Vendor ID:", "data": "ARM", "children": [
        {"field": "Model name:", "data": "Neoverse-V2", "children": [
            {"field": "Socket(s):", "data": "1"}]}]}, {"field": "Caches:", "data": null}]}"""

    assert cpu.parse_lscpu(text) == {
        "Vendor ID": "ARM",
        "Model name": "Neoverse-V2",
        "Socket(s)": "1",
    }


@pytest.mark.parametrize("text", ["", "Architecture: x86_64", "[]", "{}", '{"lscpu": [{"field"'])
def test_output_that_is_not_the_json_of_lscpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  two decoders word it differently
        cpu.parse_lscpu(text)


def test_without_lscpu_the_kernel_still_tells_the_model(fake_host: FakeHost) -> None:
    fake_host.file("/proc/cpuinfo", CPUINFO)

    found = cpu.readings(fake_host.surroundings, None)

    assert found["cpu.model"].value == "Imaginary CPU 9000"
    assert found["cpu.microcode"].value == "0x2b000603"
    assert found["cpu.frequency"].value == 2500
    assert found["cpu.features"].value == ["avx", "avx2", "avx512f", "amx_tile"]
    assert found["cpu.sockets"].state == "unknown"
    assert found["cpu.sockets"].detail == "lscpu is not installed"


def test_a_failing_lscpu_is_the_reason_that_is_told(fake_host: FakeHost) -> None:
    hung = answer("", "did not answer within 10 s", None)

    found = cpu.readings(fake_host.surroundings, hung)

    assert found["cpu.cores"].detail == "lscpu did not answer within 10 s"


def test_frequency_files_decide_over_what_the_cpu_promises(fake_host: FakeHost) -> None:
    fake_host.file("/proc/cpuinfo", CPUINFO)
    folder = "/sys/devices/system/cpu/cpu0"
    fake_host.file(f"{folder}/cpufreq/scaling_cur_freq", "1200000\n")
    fake_host.file(f"{folder}/cpufreq/cpuinfo_max_freq", "3800000\n")
    fake_host.file(f"{folder}/cpufreq/scaling_governor", "powersave\n")
    fake_host.file(f"{folder}/thermal_throttle/core_throttle_count", "7\n")

    found = cpu.readings(fake_host.surroundings, None)

    assert found["cpu.frequency"].value == 1200
    assert found["cpu.frequency_max"].value == 3800
    assert found["cpu.governor"].value == "powersave"
    assert found["cpu.throttle_count"].value == 7


@pytest.mark.parametrize(
    ("path", "content", "boost"),
    [
        ("intel_pstate/no_turbo", "0", "enabled"),
        ("intel_pstate/no_turbo", "1", "disabled"),
        ("cpufreq/boost", "1", "enabled"),
        ("cpufreq/boost", "0", "disabled"),
    ],
)
def test_the_two_boost_switches_read_the_opposite_way(
    fake_host: FakeHost, path: str, content: str, boost: str
) -> None:
    fake_host.file(f"/sys/devices/system/cpu/{path}", content)

    assert cpu.readings(fake_host.surroundings, None)["cpu.boost"].value == boost


def test_missing_counters_are_unknown_and_not_zero(fake_host: FakeHost) -> None:
    found = cpu.readings(fake_host.surroundings, None)

    for key in ("cpu.throttle_count", "cpu.frequency", "numa.nodes", "numa.memory", "cpu.features"):
        assert found[key].state == "unknown", key


def test_numa_nodes_with_their_cpus_and_memory(fake_host: FakeHost) -> None:
    for node, cpus, kib in ((0, "0-31", 1000), (1, "32-63", 2000)):
        folder = f"/sys/devices/system/node/node{node}"
        fake_host.file(f"{folder}/cpulist", f"{cpus}\n")
        fake_host.file(f"{folder}/meminfo", f"Node {node} MemTotal:       {kib} kB\n")

    found = cpu.readings(fake_host.surroundings, None)

    assert found["numa.nodes"].value == 2
    assert found["numa.cpus"].value == {"0": "0-31", "1": "32-63"}
    assert found["numa.memory"].value == {"0": 1024000, "1": 2048000}


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu is not installed here")
def test_this_machine_has_as_many_cpus_as_the_system_says() -> None:
    lscpu = ask(Command(("lscpu", "-J")), Deadline(10))

    found = cpu.readings(Surroundings.here(), lscpu)

    assert found["cpu.threads"].value == os.cpu_count()
    assert found["cpu.usable"].value == len(os.sched_getaffinity(0))
    assert found["cpu.model"].known


def test_kernel_lists_are_expanded_and_condensed() -> None:
    assert cpu.expanded("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert cpu.condensed([11, 10, 8, 0, 1, 2, 3]) == "0-3,8,10-11"
    assert cpu.condensed([]) == ""
