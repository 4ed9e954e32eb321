from __future__ import annotations

import pytest

from orchestrator.agent.samples import Sample, parsed, summary

UUID = "GPU-0a81e2c3-ef55-50ce-2b39-fbf55580b530"
OTHER = "GPU-20ad41ce-a0a6-6e32-3e71-151e48b209b8"


def sample(uuid: str = UUID, sm: float | None = 1425.0, held: int | None = 4) -> Sample:
    return Sample(uuid, sm, 3201.0, 684.5, 61.0, 100.0, 9000.0, held)


def test_a_line_is_a_sample() -> None:
    found = parsed(f"{UUID}, 1425, 3201, 684.50, 61, 100, 9000, 0x0000000000000004\n")

    assert found == sample()
    assert found.row("2026-11-30T00:00:00Z") == (
        f"2026-11-30T00:00:00Z,{UUID},1425,3201,684.5,61,100,9000,0x4"
    )


def test_what_is_not_told_is_none_and_an_empty_cell() -> None:
    found = parsed(f"{UUID}, 1425, [N/A], [Not Supported], 61, [Unknown Error], 9000, [N/A]")

    assert found == Sample(UUID, 1425.0, None, None, 61.0, None, 9000.0, None)
    assert found.row("t") == f"t,{UUID},1425,,,61,,9000,"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.",
        f"{UUID}, 1425, 3201",
        "0, 1425, 3201, 684.50, 61, 100, 9000, 0x4",
        ", 1, 2, 3, 4, 5, 6, 0x4",
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
