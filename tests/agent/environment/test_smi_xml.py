from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from orchestrator.agent.environment import smi_xml
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import Readings, missing

from .conftest import fixture_files, fixture_text

DOCUMENTS = fixture_files("nvidia-smi/xml/*.xml", "nvidia-h200/*.xml")


def gpu(name: str) -> Readings:
    root = smi_xml.parse_document(fixture_text(name))
    node = root.find("gpu")
    assert node is not None
    return smi_xml.gpu_readings(node, 0)


def values(name: str, *keys: str) -> list[object]:
    found = gpu(f"nvidia-smi/xml/{name}")
    return [found[key].value for key in keys]


def small(body: str) -> Readings:
    return smi_xml.gpu_readings(ET.fromstring(f"<gpu id='00000000:01:00.0'>{body}</gpu>"), 0)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_is_read_without_an_error(name: str) -> None:
    root = smi_xml.parse_document(fixture_text(name))

    found = [smi_xml.gpu_readings(node, i) for i, node in enumerate(root.findall("gpu"))]

    assert found
    assert [(k, r.detail) for g in found for k, r in g.items() if r.state == "error"] == []
    assert all(set(g) <= set(GPU_KEYS) for g in found)
    assert all(g["uuid"].value.startswith("GPU-") and g["name"].known for g in found)


# Written down here a second time, and read with plain XPath: the test must not ask the parser.
PLACES: dict[str, tuple[str, ...]] = {
    "memory_total": ("fb_memory_usage/total",),
    "memory_used": ("fb_memory_usage/used",),
    "clock_sm": ("clocks/sm_clock",),
    "clock_mem": ("clocks/mem_clock",),
    "clock_sm_max": ("max_clocks/sm_clock",),
    "application_clock_sm": ("applications_clocks/graphics_clock",),
    "power_limit_default": (
        "gpu_power_readings/default_power_limit",
        "power_readings/default_power_limit",
    ),
    "power_draw_average": (
        "gpu_power_readings/average_power_draw",
        "power_readings/average_power_draw",
    ),
    "temperature": ("temperature/gpu_temp",),
    "temperature_memory": ("temperature/memory_temp",),
    "ecc_mode": ("ecc_mode/current_ecc",),
    "mig_mode": ("mig_mode/current_mig",),
    "persistence_mode": ("persistence_mode",),
    "utilization": ("utilization/gpu_util",),
    "utilization_memory": ("utilization/memory_util",),
    "pcie_generation": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen",),
    "pcie_width": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "pcie_replays": ("pci/replay_counter",),
    "remapped_rows_corrected": ("remapped_rows/remapped_row_corr",),
    "gsp_firmware": ("gsp_firmware_version",),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_field_is_a_value_exactly_where_the_document_has_one(name: str) -> None:
    for node in smi_xml.parse_document(fixture_text(name)).findall("gpu"):
        found = smi_xml.gpu_readings(node, 0)

        for key, paths in PLACES.items():
            texts = [leaf.text or "" for leaf in map(node.find, paths) if leaf is not None]
            there = [text for text in texts if missing(text, "") is None]
            assert found[key].known == bool(there), (key, texts)
            if there and isinstance(found[key].value, int):
                number = there[0].split()[0].rstrip("x")
                assert (found[key].value == 0) == (float(number) == 0), (key, there)


def test_the_throttle_names_of_drivers_until_525() -> None:
    found = values(
        "quadro-p2000-v12.xml", "throttle_reasons", "throttle_reason_names", "power_limit"
    )

    assert found == [1, ["gpu_idle"], 75]


def test_the_event_names_of_drivers_from_535_on() -> None:
    found = values(
        "netdata-rtx-4090-driver-535.xml",
        "throttle_reasons",
        "throttle_reason_names",
        "power_limit",
    )

    assert found == [1, ["gpu_idle"], 450]


def test_counters_are_nanoseconds_and_absent_before_575() -> None:
    laptop = gpu("nvidia-smi/xml/rtx-4070-laptop-575.xml")
    older = gpu("nvidia-smi/xml/rtx-3060-v12.xml")

    assert laptop["throttle_sw_power_cap"].value == 91403239000
    assert laptop["throttle_hw_thermal"].value == 0
    assert older["throttle_sw_power_cap"].state == "unknown"


def test_mig_hides_utilisation_and_lists_devices() -> None:
    found = gpu("nvidia-smi/xml/a100-sxm4-v12.xml")

    assert found["mig_mode"].value == "enabled"
    assert len(found["mig_devices"].value) == 4
    assert found["utilization"].state == "not_applicable"
    assert found["remapped_rows_corrected"].state == "not_applicable"


def test_a_count_of_attached_gpus_that_differs_is_told() -> None:
    root = smi_xml.parse_document(fixture_text("nvidia-smi/xml/a100-sxm4-v12.xml"))

    count = smi_xml.driver_readings(root)["gpu.count"]

    assert (count.value, count.detail) == (1, "attached_gpus says 4")


def test_power_is_found_where_only_the_instant_reading_has_it_and_values_are_padded() -> None:
    found = values("netdata-rtx-pro-6000-driver-580.xml", "power_draw", "temperature", "uuid")

    assert found == [66.84, 37, "GPU-00000000-0000-0000-0000-000000000016"]


def test_a_laptop_has_a_limit_above_its_default_and_no_ecc() -> None:
    found = gpu("nvidia-smi/xml/rtx-4070-laptop-575.xml")

    limits = [found[key].value for key in ("power_limit", "power_limit_default", "power_limit_max")]
    assert limits == [95, 55, 140]
    assert found["ecc_corrected"].state == "not_applicable"
    assert found["application_clock_sm"].state == "not_applicable"


def test_deprecated_wording_is_no_value() -> None:
    found = gpu("nvidia-smi/xml/rtx-3080-v13.xml")

    assert found["application_clock_sm"].state == "unknown"
    assert "deprecated" in found["application_clock_sm"].detail


def test_windows_processes_have_no_memory_and_some_no_name() -> None:
    processes = gpu("nvidia-smi/xml/netdata-rtx-2080-win.xml")["processes"].value

    assert len(processes) == 26
    assert {process["memory"] for process in processes} == {None}
    assert sum(process["name"] is None for process in processes) == 5
    assert processes[0]["name"].endswith("\\PhoneExperienceHost.exe")


def test_a_process_keeps_its_program_and_loses_its_options() -> None:
    processes = gpu("nvidia-smi/xml/rtx-3080-v12.xml")["processes"].value

    assert [process["name"] for process in processes][2] == "/opt/microsoft/msedge/msedge"
    assert not any("--" in process["name"] for process in processes)


def test_errors_before_ampere_are_totals_and_later_the_sum_of_their_parts() -> None:
    p100 = gpu("nvidia-smi/xml/netdata-tesla-p100.xml")
    h200 = gpu("nvidia-h200/nvidia-smi-q.xml")

    assert (p100["ecc_corrected_lifetime"].value, p100["ecc_corrected"].value) == (3, 0)
    assert h200["ecc_uncorrected"].value == 0


def test_a_sum_with_a_missing_part_is_unknown_and_not_the_rest() -> None:
    found = small(
        "<ecc_errors><volatile><sram_correctable>N/A</sram_correctable>"
        "<dram_correctable>0</dram_correctable></volatile></ecc_errors>"
    )

    assert found["ecc_corrected"].state == "not_applicable"


def test_a_reason_without_a_state_makes_the_mask_unknown() -> None:
    found = small(
        "<clocks_event_reasons>"
        "<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>"
        "<clocks_event_reason_hw_slowdown>N/A</clocks_event_reason_hw_slowdown>"
        "</clocks_event_reasons>"
    )

    assert found["throttle_reasons"].state == "not_applicable"


def test_active_reasons_become_bits_and_names() -> None:
    found = small(
        "<clocks_throttle_reasons>"
        "<clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>"
        "<clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>"
        "<clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown>"
        "</clocks_throttle_reasons>"
    )

    assert found["throttle_reasons"].value == 0x44
    assert found["throttle_reason_names"].value == ["sw_power_cap", "hw_thermal_slowdown"]


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("", "unknown"),
        ("<remapped_rows>N/A</remapped_rows>", "not_applicable"),
        ("<remapped_rows><remapped_row_pending></remapped_row_pending></remapped_rows>", "unknown"),
        (
            "<remapped_rows><remapped_row_pending>ERR!</remapped_row_pending></remapped_rows>",
            "error",
        ),
        (
            "<remapped_rows><remapped_row_pending>Maybe</remapped_row_pending></remapped_rows>",
            "error",
        ),
    ],
)
def test_a_missing_answer_to_yes_or_no_is_not_no(body: str, state: str) -> None:
    assert small(body)["remapped_rows_pending"].state == state


def test_a_driver_with_the_new_names_is_understood() -> None:
    root = smi_xml.parse_document(
        "<nvidia_smi_log><driver_version>Deprecated, see kmd_version</driver_version>"
        "<kmd_version>610.57.04</kmd_version><cuda_umd_version>13.3</cuda_umd_version></nvidia_smi_log>"
    )

    found = smi_xml.driver_readings(root)

    assert (found["driver.version"].value, found["driver.cuda"].value) == ("610.57.04", "13.3")


def test_warnings_before_the_document_do_not_hide_it() -> None:
    text = fixture_text("nvidia-smi/errors/gpu-handle-forms.txt")
    document = "<?xml version='1.0'?><nvidia_smi_log><gpu id='x'/></nvidia_smi_log>"

    assert smi_xml.parse_document(f"{text}\n{document}").tag == "nvidia_smi_log"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No devices were found",
        "<nvidia_smi_log><gpu>",
        "<?xml version='1.0'?><html/>",
        "\x00\x01\x02",
        "<?xml",
    ],
)
def test_what_is_no_document_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"nvidia-smi|XML"):
        smi_xml.parse_document(text)


def test_a_fragment_with_mixed_content_is_refused_and_does_no_harm() -> None:
    with pytest.raises(ValueError, match="no XML"):
        smi_xml.parse_document(
            fixture_text("nvidia-smi/xml/fragment-supported-clocks-mixed-content.txt")
        )
