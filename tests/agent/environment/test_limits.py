from __future__ import annotations

import resource

import pytest

from orchestrator.agent.environment import limits
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost

V2 = "/sys/fs/cgroup"


def v2_host(fake_host: FakeHost, group: str) -> None:
    fake_host.file("/proc/self/cgroup", f"0::{group}\n")
    fake_host.file(f"{V2}/cgroup.controllers", "cpu memory\n")


def test_the_tightest_limit_on_the_way_up_counts(fake_host: FakeHost) -> None:
    v2_host(fake_host, "/user.slice/job")
    fake_host.file(f"{V2}/user.slice/job/cpu.max", "max 100000\n")
    fake_host.file(f"{V2}/user.slice/cpu.max", "250000 100000\n")
    fake_host.file(f"{V2}/user.slice/job/memory.max", "2000000\n")
    fake_host.file(f"{V2}/user.slice/memory.max", "1000000\n")

    found = limits.readings(fake_host.surroundings)

    assert found["limits.cpu_quota"].value == 2.5
    assert found["limits.memory"].value == 1000000


def test_no_limit_anywhere_is_unlimited(fake_host: FakeHost) -> None:
    v2_host(fake_host, "/user.slice/job")
    fake_host.file(f"{V2}/user.slice/job/cpu.max", "max 100000\n")

    found = limits.readings(fake_host.surroundings)

    assert found["limits.cpu_quota"].value == "unlimited"
    assert found["limits.memory"].value == "unlimited"


def test_a_limit_that_could_not_be_looked_for_is_unknown(fake_host: FakeHost) -> None:
    fake_host.file("/proc/self/cgroup", "0::/docker/abc\n")

    found = limits.readings(fake_host.surroundings)

    assert found["limits.memory"].state == "unknown"
    assert "could not be seen" in found["limits.memory"].detail


def test_the_limits_of_a_container_lie_at_the_root_of_its_mount(fake_host: FakeHost) -> None:
    v2_host(fake_host, "/../../kubepods/pod7")
    fake_host.file(f"{V2}/memory.max", "8000000\n")

    assert limits.readings(fake_host.surroundings)["limits.memory"].value == 8000000


def test_cgroup_v1_is_read_by_controller(fake_host: FakeHost) -> None:
    fake_host.file(
        "/proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n9:name=systemd:/other\n"
    )
    fake_host.file(f"{V2}/memory/job/memory.limit_in_bytes", "5000000\n")
    fake_host.file(f"{V2}/memory/memory.limit_in_bytes", "9223372036854771712\n")
    fake_host.file(f"{V2}/cpu/job/cpu.cfs_quota_us", "400000\n")
    fake_host.file(f"{V2}/cpu/job/cpu.cfs_period_us", "100000\n")
    # A group of another controller is not ours.
    fake_host.file(f"{V2}/memory/other/memory.limit_in_bytes", "1\n")

    found = limits.readings(fake_host.surroundings)

    assert found["limits.memory"].value == 5000000
    assert found["limits.cpu_quota"].value == 4


@pytest.mark.parametrize(
    ("name", "key"), [("RLIMIT_NOFILE", "open_files"), ("RLIMIT_CORE", "core")]
)
def test_the_ulimits_of_this_process(name: str, key: str) -> None:
    soft, _ = resource.getrlimit(getattr(resource, name))

    value = limits.readings(Surroundings.here())[f"limits.{key}"].value

    assert value == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
