from __future__ import annotations

import os
import platform

import pytest

from orchestrator.agent.environment import memory
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
SwapTotal:       400 kB
SwapFree:        300 kB
HugePages_Total:       0
"""


def test_sizes_are_bytes(fake_host: FakeHost) -> None:
    fake_host.file("/proc/meminfo", MEMINFO)

    found = memory.readings(fake_host.surroundings)

    assert found["memory.total"].value == 1024000
    assert found["memory.available"].value == 614400
    assert found["memory.swap_used"].value == 102400


def test_a_line_that_is_not_there_is_unknown_and_not_zero(fake_host: FakeHost) -> None:
    fake_host.file("/proc/meminfo", "MemTotal:       1000 kB\n")

    found = memory.readings(fake_host.surroundings)

    assert found["memory.available"].state == "unknown"
    assert found["memory.swap_total"].state == "unknown"
    assert found["memory.swap_used"].state == "unknown"


def test_load_and_pressure(fake_host: FakeHost) -> None:
    fake_host.file("/proc/loadavg", "0.50 1.25 2.00 3/777 12345\n")
    fake_host.file(
        "/proc/pressure/cpu", "some avg10=1.53 avg60=0.87 avg300=0.73 total=3\nfull avg10=0.00\n"
    )
    fake_host.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")

    found = memory.readings(fake_host.surroundings)

    assert [found[f"load.{n}"].value for n in ("1min", "5min", "15min")] == [0.5, 1.25, 2.0]
    assert found["load.running"].value == 3
    assert found["pressure.cpu"].value == 1.53
    assert found["pressure.io"].state == "unknown"
    assert found["memory.huge_pages"].value == "madvise"


@pytest.mark.skipif(platform.system() != "Linux", reason="reads Linux's own files")
def test_this_machine_has_memory() -> None:
    found = memory.readings(Surroundings.here())

    total = found["memory.total"].value
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < found["memory.available"].value <= total
