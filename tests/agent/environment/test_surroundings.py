from __future__ import annotations

from orchestrator.agent.environment.surroundings import (
    amd_traces,
    hygon_traces,
    jetson_traces,
    nvidia_traces,
)

from .conftest import FakeHost


def test_an_empty_host_shows_no_trace_of_any_vendor(fake_host: FakeHost) -> None:
    here = fake_host.surroundings

    assert not nvidia_traces(here).any
    assert not amd_traces(here).any
    assert not hygon_traces(here).any
    assert not jetson_traces(here).any


def test_a_tool_alone_proves_nothing(fake_host: FakeHost) -> None:
    fake_host.tool("nvidia-smi", "exit 9")

    traces = nvidia_traces(fake_host.surroundings)

    assert traces.any
    assert not traces.proven


def test_a_device_node_or_a_driver_is_proof(fake_host: FakeHost) -> None:
    fake_host.file("/dev/nvidia0")
    fake_host.file("/sys/module/amdgpu/version", "6.8.5")

    assert nvidia_traces(fake_host.surroundings).device == "/dev/nvidia[0-9]*"
    assert nvidia_traces(fake_host.surroundings).proven
    assert amd_traces(fake_host.surroundings).driver == "/sys/module/amdgpu"


def test_a_card_on_the_bus_without_a_driver_is_proof(fake_host: FakeHost) -> None:
    fake_host.file("/sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n")
    fake_host.file("/sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n")

    assert nvidia_traces(fake_host.surroundings).device == "PCI device 0000:41:00.0"


def test_an_nvidia_network_or_audio_device_is_no_gpu(fake_host: FakeHost) -> None:
    fake_host.file("/sys/bus/pci/devices/0000:41:00.1/vendor", "0x10de\n")
    fake_host.file("/sys/bus/pci/devices/0000:41:00.1/class", "0x040300\n")

    assert not nvidia_traces(fake_host.surroundings).any


def test_hygons_toolkit_names_its_tool_like_amds(fake_host: FakeHost) -> None:
    tool = fake_host.tool("rocm-smi", "exit 0")

    assert hygon_traces(fake_host.surroundings).tool == ""
    fake_host.file("/opt/dtk-25.04/.info/version", "25.04")
    assert hygon_traces(fake_host.surroundings).tool == str(tool)
