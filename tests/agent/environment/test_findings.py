from __future__ import annotations

import pytest

from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import Readings, known, unknown
from orchestrator.agent.environment.findings import _MEANINGLESS, completed, matched


def gpu(index: int, **values: object) -> Readings:
    return {"index": known(index, "x"), **{key: known(v, "x") for key, v in values.items()}}


def test_the_same_gpu_is_found_by_its_uuid_in_any_order() -> None:
    first = [gpu(0, uuid="GPU-a"), gpu(1, uuid="GPU-b")]
    second = [gpu(0, uuid="GPU-B", temperature=50), gpu(1, uuid="GPU-a", temperature=40)]

    joined = matched(first, second)

    assert [(g["uuid"].value, g["temperature"].value) for g in joined] == [
        ("GPU-a", 40),
        ("GPU-b", 50),
    ]


def test_bus_ids_with_short_and_long_domains_are_one() -> None:
    joined = matched(
        [gpu(0, pci_bus_id="00000000:0B:00.0")], [gpu(0, pci_bus_id="0000:0b:00.0", name="X")]
    )

    assert len(joined) == 1
    assert joined[0]["name"].value == "X"


def test_listings_without_names_are_joined_by_number_when_they_are_equally_long() -> None:
    joined = matched(
        [gpu(0, temperature=1), gpu(1, temperature=2)], [gpu(1, name="b"), gpu(0, name="a")]
    )

    assert [(g["name"].value, g["temperature"].value) for g in joined] == [("a", 1), ("b", 2)]


def test_a_gpu_only_one_tool_lists_is_kept() -> None:
    joined = matched([gpu(0, uuid="GPU-a"), gpu(1, uuid="GPU-lost")], [gpu(0, uuid="GPU-a")])

    assert [g["uuid"].value for g in joined] == ["GPU-a", "GPU-lost"]


def test_a_lost_gpu_is_not_given_the_data_of_its_neighbour() -> None:
    joined = matched([gpu(0), gpu(1)], [gpu(0, uuid="GPU-b", name="the survivor")])

    assert "name" not in joined[0]
    assert len(joined) == 3


def test_a_key_of_another_vendor_is_not_applicable_and_not_unknown() -> None:
    gap = unknown("smi", "not told")

    assert completed(gpu(0), "nvidia", gap)["partition"].state == "not_applicable"
    assert completed(gpu(0), "nvidia", gap)["mig_mode"].state == "unknown"
    assert completed(gpu(0), "amd", gap)["mig_mode"].state == "not_applicable"
    assert completed(gpu(0), "amd", gap)["partition"].state == "unknown"


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "hygon", "jetson"])
def test_no_key_is_lost_to_a_misspelling(vendor: str) -> None:
    assert _MEANINGLESS[vendor] <= set(GPU_KEYS)


def test_a_completed_gpu_has_every_key() -> None:
    full = completed(gpu(0, name="X"), "nvidia", unknown("smi", "not told"))

    assert set(full) == set(GPU_KEYS)
    assert full["vendor"].value == "nvidia"
    assert full["temperature"].detail == "not told"
