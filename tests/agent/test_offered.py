"""Which GPUs a host's environment leaves to a step, as CUDA and HIP would read it."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.agent.offered import offered, whose

NVIDIA = [
    {"index": index, "uuid": f"GPU-{index}{'a' * 7}-1111-2222-3333-444444444444"}
    for index in range(4)
]
AMD = [{"index": index, "uuid": f"{index}cff74a0-0000-1000-80c5"} for index in range(4)]


def left(gpus: list[dict[str, Any]], **env: str) -> list[int]:
    return [gpu["index"] for gpu in offered(gpus, env)]


def test_all_when_nothing_is_said() -> None:
    assert left(NVIDIA, PATH="/bin") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("2", [2]),
        ("3,1", [1, 3]),
        (" 0 , 2 ", [0, 2]),
        ("GPU-2aaaaaaa", [2]),
        ("GPU-2aaaaaaa-1111-2222-3333-444444444444,0", [0, 2]),
    ],
)
def test_those_that_are_named_by_number_or_by_the_beginning_of_a_uuid(
    value: str, indices: list[int]
) -> None:
    assert left(NVIDIA, CUDA_VISIBLE_DEVICES=value) == indices


@pytest.mark.parametrize(
    "value", ["", "-1", "none", "7", "GPU-", "MIG-1aaaaaaa", "2aaaaaaa", "\u0663", "1" * 5000]
)
def test_none_when_the_first_entry_names_none_or_more_than_one(value: str) -> None:
    assert left(NVIDIA, CUDA_VISIBLE_DEVICES=value) == []


def test_the_list_ends_where_an_entry_names_none() -> None:
    assert left(NVIDIA, CUDA_VISIBLE_DEVICES="1,9,2") == [1]


def test_a_variable_of_hip_says_nothing_about_nvidia() -> None:
    assert left(NVIDIA, HIP_VISIBLE_DEVICES="1") == [0, 1, 2, 3]


def test_hip_reads_its_own_variable_before_that_of_cuda() -> None:
    assert left(AMD, CUDA_VISIBLE_DEVICES="1") == [1]
    assert left(AMD, CUDA_VISIBLE_DEVICES="1", HIP_VISIBLE_DEVICES="2") == [2]


def test_hip_counts_what_the_runtime_of_rocm_sees() -> None:
    assert left(AMD, ROCR_VISIBLE_DEVICES="2,3") == [2, 3]
    assert left(AMD, ROCR_VISIBLE_DEVICES="2,3", HIP_VISIBLE_DEVICES="1") == [3]
    assert left(AMD, ROCR_VISIBLE_DEVICES="2,3", HIP_VISIBLE_DEVICES="2") == []
    assert left(NVIDIA, ROCR_VISIBLE_DEVICES="2") == [0, 1, 2, 3]


def test_two_vendors_in_one_host_have_variables_of_their_own() -> None:
    assert left(NVIDIA[:1] + AMD[1:], ROCR_VISIBLE_DEVICES="2", CUDA_VISIBLE_DEVICES="0") == [0, 2]


def test_a_gpu_without_a_number_is_none_of_those_named_by_number() -> None:
    assert left([{**NVIDIA[0], "index": None}], CUDA_VISIBLE_DEVICES="0") == []


def test_who_decided_is_told() -> None:
    assert whose({}) == "this host"
    assert whose({"CUDA_VISIBLE_DEVICES": "7"}) == "this host with CUDA_VISIBLE_DEVICES=7"
