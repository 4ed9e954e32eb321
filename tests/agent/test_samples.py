from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.agent.samples import Sample, parsed, summary

UUID = "GPU-0a81e2c3-ef55-50ce-2b39-fbf55580b530"
OTHER = "GPU-20ad41ce-a0a6-6e32-3e71-151e48b209b8"


CLOCK = "2026/11/30 00:17:30.250"
NOON = 1795997850.25  # the same in UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def sample(uuid: str = UUID, sm: float | None = 1425.0, held: int | None = 4) -> Sample:
    return Sample(NOON, uuid, sm, 3201.0, 684.5, 61.0, 100.0, 9000.0, held)


def test_a_line_is_a_sample() -> None:
    found = parsed(f"{CLOCK}, {UUID}, 1425, 3201, 684.50, 61, 100, 9000, 0x0000000000000004\n")

    assert found == sample()
    assert found.row() == f"2026-11-30T00:17:30.250Z,{UUID},1425,3201,684.5,61,100,9000,0x4"


def test_the_tools_clock_is_the_hosts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST+5")
    time.tzset()

    found = parsed(f"{CLOCK}, {UUID}, 1425, 3201, 684.50, 61, 100, 9000, 0x4")

    assert found is not None
    assert found.at == NOON + 5 * 3600
    assert found.row().startswith("2026-11-30T05:17:30.250Z")


def test_what_is_not_told_is_none_and_an_empty_cell() -> None:
    line = f"{CLOCK}, {UUID}, 1425, [N/A], [Not Supported], 61, [Unknown Error], 9000, [N/A]"

    found = parsed(line)

    assert found == Sample(NOON, UUID, 1425.0, None, None, 61.0, None, 9000.0, None)
    assert found.row().endswith(f",{UUID},1425,,,61,,9000,")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.",
        f"{CLOCK}, {UUID}, 1425, 3201",
        f"{CLOCK}, 0, 1425, 3201, 684.50, 61, 100, 9000, 0x4",
        f", {UUID}, 1, 2, 3, 4, 5, 6, 0x4",
        f"2026/13/30 00:17:30.250, {UUID}, 1, 2, 3, 4, 5, 6, 0x4",
        f"0000/01/01 00:00:00, {UUID}, 1, 2, 3, 4, 5, 6, 0x4",
    ],
)
def test_another_line_is_no_sample(line: str) -> None:
    assert parsed(line) is None


def test_a_summary_has_lowest_median_and_highest_of_each_gpu_asked_for() -> None:
    samples = [sample(sm=mhz) for mhz in (1980.0, 1410.0, 1425.0)] + [sample(OTHER)]

    (told,) = summary(samples, [UUID])

    assert (told["uuid"], told["samples"]) == (UUID, 3)
    assert told["sm_mhz"] == [1410.0, 1425.0, 1980.0]
    assert told["power_w"] == [684.5, 684.5, 684.5]
    assert told["held"] == {"sw_power_cap": 1.0}


def test_clocks_power_and_what_held_them_are_of_the_samples_in_which_a_kernel_ran() -> None:
    idle = replace(sample(sm=345.0, held=1), busy_pct=0.0, power_w=78.0, memory_mib=0.0)
    unknown = replace(idle, busy_pct=None)

    (told,) = summary([idle, sample(), unknown, sample(sm=1410.0), idle], [UUID])
    (quiet,) = summary([idle, unknown], [UUID])
    (silent,) = summary([unknown, unknown], [UUID])

    assert (told["samples"], told["busy"]) == (5, 2)
    assert told["sm_mhz"] == [1410.0, 1417.5, 1425.0]
    assert told["power_w"] == [684.5, 684.5, 684.5]
    assert told["held"] == {"sw_power_cap": 1.0}
    assert (told["busy_pct"], told["memory_mib"]) == ([0.0, 50.0, 100.0], [0.0, 0.0, 9000.0])
    assert (quiet["samples"], quiet["busy"]) == (2, 0)
    assert quiet["power_w"] == [78.0, 78.0, 78.0]
    assert "busy" not in silent
    assert silent["power_w"] == [78.0, 78.0, 78.0]


def test_shares_are_of_the_samples_that_tell_and_idling_holds_nothing() -> None:
    samples = [sample(held=mask) for mask in (1, 0, 4, 4 | 0x40, None)]

    (told,) = summary(samples, [UUID])

    assert told["held"] == {"sw_power_cap": 0.5, "hw_thermal_slowdown": 0.25}


def test_a_gpu_that_nobody_saw_has_no_numbers() -> None:
    assert summary([sample()], [OTHER]) == []
    assert summary([], [UUID]) == []

    (told,) = summary([sample(sm=None, held=None)], [UUID])
    assert "sm_mhz" not in told
    assert told["held"] == {}
