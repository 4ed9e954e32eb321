from __future__ import annotations

import platform

import pytest

from orchestrator.agent.environment import gpus
from orchestrator.agent.environment.probe import Deadline

from .conftest import FakeHost, fixture_text

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux", reason="the number of GPUs is only established on Linux"
)


def gather(fake_host: FakeHost, seconds: float = 20) -> gpus.Gathered:
    return gpus.gather(fake_host.surroundings, Deadline(seconds))


def h200_tool(fake_host: FakeHost) -> None:
    fake_host.printing(
        "nvidia-smi",
        {
            "-q -x": fixture_text("nvidia-h200/nvidia-smi-q.xml"),
            "-L": fixture_text("nvidia-h200/L.txt"),
            "topo -m": fixture_text("nvidia-h200/topo-m.txt"),
        },
    )


def test_a_host_without_driver_device_and_tool_has_no_gpu(fake_host: FakeHost) -> None:
    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert set(found) == set(gpus.KEYS)
    assert (found["gpu.count"].state, found["gpu.count"].value) == ("value", 0)
    others = {reading.state for key, reading in found.items() if key != "gpu.count"}
    assert others == {"not_applicable"}


def test_a_tool_that_finds_no_driver_on_a_host_without_one_confirms_it(fake_host: FakeHost) -> None:
    text = fixture_text("nvidia-smi/errors/driver-not-loaded.txt").strip()
    fake_host.tool("nvidia-smi", f'echo "{text}"; exit 9')

    count = gpus.count(gather(fake_host))

    assert count.value == 0
    assert "couldn't communicate with the NVIDIA driver" in count.detail


@pytest.mark.parametrize(
    ("traces", "said"),
    [
        (["/dev/nvidia0"], "/dev/nvidia[0-9]*"),
        (["/dev/nvidiactl", "/proc/driver/nvidia/version"], "/proc/driver/nvidia/version"),
        (["/sys/module/nvidia/version"], "/sys/module/nvidia"),
        (["/dev/kfd"], "/dev/kfd"),
        (["/dev/mkfd"], "/dev/mkfd"),
    ],
)
def test_a_driver_or_device_that_no_tool_tells_of_is_unknown_and_never_zero(
    fake_host: FakeHost, traces: list[str], said: str
) -> None:
    for path in traces:
        fake_host.file(path, "x")

    count = gpus.count(gather(fake_host))

    assert count.state in ("unknown", "error")
    assert count.value is None
    assert said in count.detail


def test_the_driver_in_the_kernel_and_no_device_node_is_a_container_not_an_empty_host(
    fake_host: FakeHost,
) -> None:
    fake_host.file("/sys/module/nvidia/version", "580.159.04")
    fake_host.tool("nvidia-smi", "echo 'No devices were found'; exit 6")

    count = gpus.count(gather(fake_host))

    assert count.state in ("unknown", "error")
    assert "No devices were found" in count.detail


def test_a_tool_that_hangs_on_a_host_without_traces_is_an_error_and_not_zero(
    fake_host: FakeHost,
) -> None:
    fake_host.tool("nvidia-smi", "trap '' TERM; while :; do sleep 60; done")

    count = gpus.count(gather(fake_host, 1))

    assert count.state == "error"
    assert "did not answer within" in count.detail


def test_a_version_mismatch_is_told_on_every_driver_key(fake_host: FakeHost) -> None:
    fake_host.file("/dev/nvidiactl")
    text = fixture_text("nvidia-smi/errors/nvml-version-mismatch.txt").strip()
    fake_host.tool("nvidia-smi", f'echo "{text}"; exit 18')

    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert found["gpu.count"].value is None
    for key in ("driver.version", "topology.class"):
        assert found[key].state == "error"
        assert "exit status 18" in found[key].detail


def test_gpus_are_numbered_and_completed(fake_host: FakeHost) -> None:
    h200_tool(fake_host)
    fake_host.file("/sys/bus/pci/devices/0000:00:06.0/numa_node", "1\n")

    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert found["gpu.count"].value == 1
    assert found["gpu.0.name"].value == "NVIDIA H200"
    assert found["gpu.0.numa_node"].value == 1
    assert found["gpu.0.foreign_processes"].value == []
    assert found["topology.class"].value == "single"
    assert found["gpu.warnings"].value == []


@pytest.mark.parametrize("text", ["-1\n", None])
def test_a_numa_node_the_kernel_does_not_know_is_unknown(
    fake_host: FakeHost, text: str | None
) -> None:
    h200_tool(fake_host)
    if text is not None:
        fake_host.file("/sys/bus/pci/devices/0000:00:06.0/numa_node", text)

    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert found["gpu.0.numa_node"].state == "unknown"


def test_lost_gpus_are_warned_of(fake_host: FakeHost) -> None:
    warning = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
    text = fixture_text("nvidia-h200/nvidia-smi-q.xml")
    fake_host.printing("nvidia-smi", {"-q -x": f"{warning}\n{text}"})

    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert found["gpu.warnings"].value == [warning]
    assert found["gpu.0.name"].value == "NVIDIA H200"


def test_hygons_devices_are_not_taken_for_amds(fake_host: FakeHost) -> None:
    fake_host.file("/dev/kfd")
    fake_host.printing("hy-smi", {"": fixture_text("hygon/hy-smi-table-k100x8.txt")})

    gathered = gather(fake_host)

    assert set(gathered.findings) == {"hygon"}
    found = gpus.readings(fake_host.surroundings, gathered, ())
    assert (found["gpu.count"].value, found["gpu.7.vendor"].value) == (8, "hygon")
    assert found["driver.cuda"].state == "not_applicable"


def test_a_jetson_is_read_by_its_own_tool(fake_host: FakeHost) -> None:
    line = fixture_text("jetson/tegrastats-all-boards.txt").splitlines()[0]
    fake_host.file("/dev/nvhost-gpu")
    fake_host.tool("nvidia-smi", "echo 'N/A'")
    fake_host.tool("tegrastats", f"while :; do echo '{line}'; sleep 0.1; done")

    assert set(gather(fake_host).findings) == {"jetson"}


def test_two_vendors_in_one_host_are_both_counted(fake_host: FakeHost) -> None:
    h200_tool(fake_host)
    fake_host.printing("amd-smi", {"static --json": fixture_text("amd/amd-smi-static-mi210.json")})

    found = gpus.readings(fake_host.surroundings, gather(fake_host), ())

    assert found["gpu.count"].value == 2
    assert [found[f"gpu.{i}.vendor"].value for i in (0, 1)] == ["nvidia", "amd"]


def test_a_vendor_nobody_could_ask_is_named_beside_the_count(fake_host: FakeHost) -> None:
    h200_tool(fake_host)
    fake_host.file("/dev/kfd")

    count = gpus.count(gather(fake_host))

    assert count.value == 1
    assert "neither amd-smi nor rocm-smi is installed" in count.detail


def test_on_another_system_nothing_is_established(
    fake_host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus.platform, "system", lambda: "Darwin")

    count = gpus.count(gather(fake_host))

    assert (count.state, count.detail) == ("unknown", "on Darwin no GPU is looked for")
