from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from orchestrator.agent.environment import host
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost

linux_only = pytest.mark.skipif(platform.system() != "Linux", reason="reads Linux's own files")


@linux_only
def test_this_machine_is_told_as_the_system_tells_it() -> None:
    found = host.readings(Surroundings.here())

    assert found["host.name"].value == platform.node()
    assert found["os.kernel"].value == platform.release()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found["host.boot_id"].value == boot_id
    assert found["time.uptime"].value > 0


def test_times_are_rfc_3339_in_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", host.utc_now())


def test_files_that_are_not_there_are_unknown_with_their_path(fake_host: FakeHost) -> None:
    found = host.readings(fake_host.surroundings)

    for key in ("host.vendor", "host.boot_id", "host.hypervisor", "host.container", "time.uptime"):
        assert found[key].state == "unknown"
        assert "cannot be read" in found[key].detail or "do not tell" in found[key].detail


def test_a_virtual_machine_and_bare_metal_are_told_apart(fake_host: FakeHost) -> None:
    fake_host.file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor\n\n")
    assert host.readings(fake_host.surroundings)["host.hypervisor"].value == "present"

    fake_host.file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n\n")
    assert host.readings(fake_host.surroundings)["host.hypervisor"].value == "none"


@pytest.mark.parametrize(
    ("path", "content", "container"),
    [
        ("/.dockerenv", "", "docker"),
        ("/run/.containerenv", "", "podman"),
        ("/proc/self/cgroup", "0::/kubepods.slice/pod1", "kubernetes"),
        ("/proc/self/cgroup", "0::/user.slice", "none"),
    ],
)
def test_the_container_is_recognised(
    fake_host: FakeHost, path: str, content: str, container: str
) -> None:
    fake_host.file("/proc/self/cgroup", "0::/")
    fake_host.file(path, content)

    assert host.readings(fake_host.surroundings)["host.container"].value == container


def test_the_distribution_is_named(fake_host: FakeHost) -> None:
    fake_host.file("/etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n')

    assert host.readings(fake_host.surroundings)["os.name"].value == "Ubuntu 24.04.2 LTS"


def test_a_board_without_dmi_names_itself_in_the_device_tree(fake_host: FakeHost) -> None:
    fake_host.file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin\0")

    assert host.readings(fake_host.surroundings)["host.product"].value == "NVIDIA Jetson AGX Orin"
