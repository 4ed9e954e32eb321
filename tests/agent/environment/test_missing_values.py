"""No captured output, with any of its values taken away, may yield a zero or any other value."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.agent.environment import (
    amd_smi,
    cpu,
    hy_smi,
    jetson,
    kernel_log,
    nvidia_smi,
    rocm_smi,
    smi_xml,
    topology,
)
from orchestrator.agent.environment.field import Readings
from orchestrator.agent.environment.nvml_device import gpu_readings
from orchestrator.agent.environment.nvml_library import Library
from orchestrator.agent.environment.tool_json import parse_json

from .conftest import FIXTURES, NO_FIXTURES, SLACK_S, fixture_files, fixture_text
from .fake_pynvml import healthy

MARKERS = (
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "Not Supported",
    "[Unknown Error]",
    "Unknown Error",
    "ERR!",
    "-",
    "",
    " N/A ",
    "[Requested functionality has been deprecated]",
    "Requested functionality has been deprecated",
    "[Insufficient Permissions]",
    "[GPU is lost]",
)
XML = fixture_files("nvidia-smi/xml/*.xml", "nvidia-h200/*.xml")
# Told by the structure of a document and not by one of its texts.
STRUCTURE = {"index", "processes", "pci_bus_id", "mig_devices"}


def gpu_node(name: str) -> ET.Element:
    node = smi_xml.parse_document(fixture_text(name)).find("gpu")
    assert node is not None
    return node


def leaves(node: ET.Element) -> list[ET.Element]:
    return [leaf for leaf in node.iter() if len(leaf) == 0]


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("name", XML)
def test_a_document_of_markers_has_no_value(name: str, marker: str) -> None:
    node = gpu_node(name)
    for leaf in leaves(node):
        leaf.text = marker

    found = smi_xml.gpu_readings(node, 0)

    assert {key for key, reading in found.items() if reading.known} <= STRUCTURE
    for process in found["processes"].value or []:
        assert (process["pid"], process["name"], process["memory"]) == (None, None, None)
    for device in found["mig_devices"].value or []:
        assert device["memory_total"] is None


# Each of these may be told by a second text when its first one is missing.
REPLACED_BY = {
    "power_draw": {"power_draw_average"},
    "ecc_corrected": set(),
    "ecc_uncorrected": set(),
}


@pytest.mark.skipif(FIXTURES is None, reason=NO_FIXTURES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_taking_some_values_away_never_makes_another_one(data: st.DataObject) -> None:
    node = gpu_node(data.draw(st.sampled_from(XML)))
    whole = smi_xml.gpu_readings(node, 0)
    for leaf in data.draw(st.lists(st.sampled_from(leaves(node)), min_size=1, unique_by=id)):
        leaf.text = data.draw(st.sampled_from(MARKERS))

    found = smi_xml.gpu_readings(node, 0)

    for key, reading in found.items():
        if not reading.known or key in STRUCTURE or reading.value == whole[key].value:
            continue
        # A value that changed can only be one that stood elsewhere in the document.
        assert reading.value != 0, key
        others = REPLACED_BY.get(key, set()) | {key}
        assert key.startswith(("power", "pci", "throttle_reason")), (key, others)


def replaced(content: Any, marker: Any) -> Any:
    """The same JSON with every value but the GPU number replaced."""
    if isinstance(content, dict):
        return {k: v if k == "gpu" else replaced(v, marker) for k, v in content.items()}
    if isinstance(content, list):
        return [replaced(item, marker) for item in content]
    return marker


@pytest.mark.parametrize("marker", [*MARKERS, None])
def test_amd_smi_of_markers_has_no_value(marker: str | None) -> None:
    static = parse_json(fixture_text("amd/amd-smi-static-mi210.json"))
    usage = parse_json(fixture_text("amd/amd-smi-metric-usage-w7700.json"))
    process = parse_json(fixture_text("amd/amd-smi-process.json"))
    entries = {
        name: amd_smi.gpu_entries(replaced(document, marker))[0]
        for name, document in (("static", static), ("metric", usage), ("process", process))
    }

    found = amd_smi.gpu_readings(0, entries)

    assert {key for key, reading in found.items() if reading.known} <= STRUCTURE
    for entry in found["processes"].value or []:
        assert (entry["pid"], entry["memory"]) == (None, None)


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("name", fixture_files("amd/rocm-smi-*.json"))
def test_rocm_smi_of_markers_has_no_value(name: str, marker: str) -> None:
    for index, card in rocm_smi.cards([replaced(parse_json(fixture_text(name)), marker)]).items():
        found = rocm_smi.gpu_readings(index, card)

        assert {key for key, reading in found.items() if reading.known} == {"index"}


@pytest.mark.parametrize("marker", [marker for marker in MARKERS if marker and " " not in marker])
@pytest.mark.parametrize("name", fixture_files("hygon/*table*"))
def test_a_hygon_table_of_markers_has_no_value(name: str, marker: str) -> None:
    lines = fixture_text(name).splitlines()
    rows = [
        " ".join([line.split()[0], *[marker] * (len(line.split()) - 1)])
        if line[:1].isdigit()
        else line
        for line in lines
    ]

    for gpu in hy_smi.parse_table("\n".join(rows)):
        assert {key for key, reading in gpu.items() if reading.known} == {"index"}


@pytest.mark.parametrize("marker", MARKERS)
def test_hygon_json_of_markers_has_no_value(marker: str) -> None:
    cards = hy_smi.parse_all(fixture_text("hygon/hy-smi-MALFORMED.json"))
    text = json.dumps({f"card{i}": replaced(card, marker) for i, card in cards.items()})

    for index, card in hy_smi.parse_all(text).items():
        found = hy_smi.card_readings(index, card)
        assert {key for key, reading in found.items() if reading.known} == {"index"}


def test_every_zero_of_the_captured_outputs_stands_there_as_a_zero() -> None:
    zeros = 0
    for name in XML:
        text = fixture_text(name)
        for node in smi_xml.parse_document(text).findall("gpu"):
            texts = {(leaf.text or "").strip().split(" ")[0] for leaf in leaves(node)}
            zeros += count_zeros(smi_xml.gpu_readings(node, 0), texts)

    assert zeros > 100


def count_zeros(found: Readings, texts: set[str]) -> int:
    zero = [key for key, reading in found.items() if reading.value == 0 and key != "index"]
    assert not zero or {"0", "No", "Not"} & texts, zero
    return len(zero)


def test_jetson_lines_without_a_sensor_have_no_value_for_it() -> None:
    for line in fixture_text("jetson/tegrastats-all-boards.txt").splitlines():
        if not line:
            continue
        bare = line.split(" CPU [")[0]

        found = jetson.parse_line(bare)

        known = {key for key, reading in found.items() if reading.known}
        assert known == {"index", "memory_total", "memory_used"}


READERS: dict[str, Any] = {
    "xml": smi_xml.parse_document,
    "json": parse_json,
    "topology": topology.parse,
    "hy-smi table": hy_smi.parse_table,
    "hy-smi json": hy_smi.parse_all,
    "tegrastats": jetson.parse_line,
    "kernel log": lambda text: kernel_log.parse_events(text.splitlines()),
    "numa": rocm_smi.parse_numa_text,
    "warnings": nvidia_smi.warning_lines,
    "lscpu": cpu.parse_lscpu,
}


@pytest.mark.parametrize(
    "unit",
    [
        "\n",
        " ",
        "\n ",
        "-",
        "{",
        "[",
        '{"a":',
        '"',
        "GPU0\t",
        "NVRM: Xid (",
        "[1.0] ",
        "<a>",
        "\x00",
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_flood_is_refused_or_read_at_once(reader: str, unit: str) -> None:
    """A regular expression that backtracks holds up every thread, whatever their deadlines."""
    flood = unit * (300_000 // len(unit))
    started = time.monotonic()

    with contextlib.suppress(ValueError):
        READERS[reader](flood)

    assert time.monotonic() - started < SLACK_S


NVML_NOTHING = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


@pytest.mark.parametrize("nothing", NVML_NOTHING)
def test_nvml_numbers_of_all_ones_are_no_values(nothing: int) -> None:
    fake = healthy()
    numbers = {name for name, value in fake.values.items() if isinstance(value, int)}
    fake.values.update(dict.fromkeys(numbers, nothing))
    fake.fields = dict.fromkeys(fake.fields, (3, "ullVal", nothing))

    found = gpu_readings(Library(fake), 0)

    assert [
        key for key, reading in found.items() if reading.known and reading.value in NVML_NOTHING
    ] == []
    for key in ("temperature", "energy", "power_draw", "throttle_sw_power_cap", "cores"):
        assert not found[key].known, key
