from __future__ import annotations

from typing import Any

import pytest

from orchestrator.agent.environment import amd_smi
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import Readings
from orchestrator.agent.environment.tool_json import Block, parse_json

from .conftest import fixture_files, fixture_text

# The shape of `amd-smi metric --json` is put together from the captured parts and the tool's own
# change log; no whole capture of a data-centre card was found.
METRIC = {
    "gpu": 0,
    "usage": {
        "gfx_activity": {"value": 87, "unit": "%"},
        "umc_activity": {"value": 41, "unit": "%"},
    },
    "power": {"socket_power": {"value": 542, "unit": "W"}, "throttle_status": "THROTTLED"},
    "clock": {
        "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 900, "unit": "MHz"}, "max_clk": {"value": 1300, "unit": "MHz"}},
    },
    "temperature": {
        "edge": "N/A",
        "hotspot": {"value": 71, "unit": "C"},
        "mem": {"value": 58, "unit": "C"},
    },
    "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0},
    "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 0},
    "mem_usage": {
        "total_vram": {"value": 196592, "unit": "MB"},
        "used_vram": {"value": 283, "unit": "MB"},
    },
}


def entry(name: str) -> Any:
    return amd_smi.gpu_entries(parse_json(fixture_text(f"amd/{name}")))[0]


def gpu(**entries: Any) -> Readings:
    return amd_smi.gpu_readings(0, entries)


def test_the_static_part_of_a_captured_card() -> None:
    found = gpu(static=entry("amd-smi-static-mi210.json"))

    values = {key: reading.value for key, reading in found.items()}
    assert set(values) <= set(GPU_KEYS)
    assert values["name"] == "AMD Instinct MI210"
    assert (values["architecture"], values["compute_units"]) == ("gfx90a", 104)
    assert values["memory_total"] == 65520 << 20
    assert (values["power_limit"], values["power_limit_max"]) == (300, 300)
    assert (values["clock_sm_max"], values["clock_mem_max"]) == (1700, 1600)
    assert (values["pcie_generation_max"], values["pcie_width_max"]) == (4, 16)
    assert (values["ecc_mode"], values["numa_node"]) == ("enabled", 1)


def test_a_metric_of_a_busy_card() -> None:
    found = gpu(metric=METRIC)

    values = {key: reading.value for key, reading in found.items()}
    assert (values["utilization"], values["utilization_memory"]) == (87, 41)
    assert (values["power_draw"], values["temperature"], values["temperature_memory"]) == (
        542,
        71,
        58,
    )
    assert (values["clock_sm"], values["clock_mem"], values["clock_mem_max"]) == (2100, 900, 1300)
    assert (values["pcie_generation"], values["pcie_width"]) == (5, 16)
    assert (values["ecc_corrected"], values["ecc_uncorrected"]) == (3, 0)
    assert values["memory_used"] == 283 << 20


def test_the_word_throttled_is_not_kept() -> None:
    reading = gpu(metric=METRIC)["throttle_reasons"]

    assert reading.state == "unknown"
    assert "THROTTLED" in reading.detail


def test_a_list_of_gpus_is_read_wrapped_and_bare() -> None:
    bare = [{"gpu": 0, "x": 1}, {"gpu": 3, "x": 2}]

    assert list(amd_smi.gpu_entries(bare)) == [0, 3]
    assert list(amd_smi.gpu_entries({"gpu_data": bare})) == [0, 3]


@pytest.mark.parametrize("document", [{}, {"gpu_data": "N/A"}, "text", 7, None, [1, 2]])
def test_what_is_no_list_of_gpus_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="no list of GPUs"):
        amd_smi.gpu_entries(document)


def test_a_usage_beside_lists_of_not_available_is_read() -> None:
    found = gpu(metric=entry("amd-smi-metric-usage-w7700.json"))

    assert (found["utilization"].value, found["utilization_memory"].value) == (42, 1)
    assert found["power_draw"].state == "unknown"


def test_a_text_in_the_place_of_an_object_is_the_reading_of_all_below_it() -> None:
    found = gpu(
        metric={"gpu": 0, "usage": "N/A", "clock": {"gfx_0": {"clk": "N/A"}}, "power": "N/A"}
    )

    for key in ("utilization", "clock_sm", "power_draw", "throttle_reasons"):
        assert found[key].state == "not_applicable", key


@pytest.mark.parametrize("name", fixture_files("amd/amd-smi*"))
def test_cut_and_human_output_is_an_error_and_whole_output_is_read(name: str) -> None:
    text = fixture_text(name)
    whole = name.endswith(".json") and "TRUNCATED" not in name

    if whole:
        assert amd_smi.gpu_entries(parse_json(text))
    else:
        with pytest.raises(ValueError, match="JSON"):
            parse_json(text)


def test_human_text_before_the_json_is_skipped() -> None:
    text = "'CTRL' + 'C' to stop watching output:\n[\n  {\"gpu\": 0}\n]\n"

    assert list(amd_smi.gpu_entries(parse_json(text))) == [0]


def test_processes_hold_the_vram_and_not_the_field_that_is_zero_beside_it() -> None:
    found = amd_smi.processes(Block(entry("amd-smi-process.json"), "amd-smi process"))

    by_pid = {process["pid"]: process["memory"] for process in found.value}
    assert by_pid[213953] == 20503796000
    assert by_pid[213534] == 56000
    assert {process["name"] for process in found.value} == {"/usr/bin/python3.12"}


@pytest.mark.parametrize(
    ("content", "state", "value"),
    [
        ([{"process_info": "No running processes detected"}], "value", []),
        ([], "value", []),
        ([{"process_info": "N/A"}], "not_applicable", None),
        ("N/A", "not_applicable", None),
        (None, "unknown", None),
    ],
)
def test_no_process_and_no_answer_are_told_apart(content: Any, state: str, value: Any) -> None:
    found = amd_smi.processes(Block({"process_list": content}, "x"))

    assert (found.state, found.value) == (state, value)


def test_a_driver_of_the_kernel_tree_reports_the_kernels_banner() -> None:
    static = Block(entry("amd-smi-static-mi210.json"), "amd-smi static")

    assert amd_smi.driver_version(static).value == "in-tree, kernel 6.14.0-24-generic"
    packaged = Block({"driver": {"version": "6.16.6"}}, "x")
    assert amd_smi.driver_version(packaged).value == "6.16.6"


def test_links_are_read_by_gpu_number_and_not_by_order() -> None:
    document = [
        {"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI"}, {"gpu": 0, "link_type": "SELF"}]},
        {"gpu": 1, "links": [{"gpu": 1, "link_type": "SELF"}, {"gpu": 0, "link_type": "XGMI"}]},
    ]

    assert amd_smi.links(document) == {
        "GPU0": {"GPU1": "XGMI", "GPU0": "X"},
        "GPU1": {"GPU1": "X", "GPU0": "XGMI"},
    }
