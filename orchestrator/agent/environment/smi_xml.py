"""The document `nvidia-smi -q -x` prints, read into the snapshot's keys.

The XML of drivers 418 to 595 was read for this. Names changed on the way, and the DTD number does
not decide which ones stand there, so every name is looked for: throttle and event reasons,
`power_readings` and `gpu_power_readings`, and the KMD and UMD names driver 610 uses elsewhere.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple
from xml.etree import ElementTree as ET

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    converted,
    error,
    first_known,
    known,
    lowered,
    missing,
    not_applicable,
    number,
    unknown,
    words,
)
from orchestrator.agent.environment.nvidia_names import (
    THROTTLE_COUNTERS,
    THROTTLE_REASONS,
    reason_names,
)
from orchestrator.agent.environment.processes import Process, joined

SOURCE = "nvidia-smi -q -x"

_MIB = {"MiB": float(1 << 20)}
_MHZ = {"MHz": 1.0}
_WATTS = {"W": 1.0}
_CELSIUS = {"C": 1.0}
_PERCENT = {"%": 1.0}
_COUNT = {"": 1.0}
_LANES = {"x": 1.0}
_MICROSECONDS = {"us": 1000.0}


def parse_document(text: str) -> ET.Element:
    """The root of the document, whatever the tool printed before it.

    Raises ValueError when there is none, or it is cut off.
    """
    start = re.search(r"<\?xml|<!DOCTYPE|<nvidia_smi_log", text)
    if start is None:
        raise ValueError(f"nvidia-smi printed no XML: {text.strip()[:200]}")
    try:
        root = ET.fromstring(text[start.start() :].strip())  # noqa: S314  this host's own tool
    except ET.ParseError as failure:
        raise ValueError(f"the XML of nvidia-smi is damaged: {failure}") from failure
    if root.tag != "nvidia_smi_log":
        raise ValueError(f"nvidia-smi printed `{root.tag}`; expected `nvidia_smi_log`")
    return root


def driver_readings(root: ET.Element) -> Readings:
    return {
        "driver.version": _first_words(root, "driver_version", "kmd_version"),
        "driver.cuda": _first_words(root, "cuda_version", "cuda_umd_version"),
        "gpu.count": _count(root),
    }


def _count(root: ET.Element) -> Reading:
    """The GPUs that are listed; `attached_gpus` may count one that cannot be used too."""
    listed = len(root.findall("gpu"))
    attached = _number(root, "attached_gpus", _COUNT)
    differs = attached.known and attached.value != listed
    return known(listed, SOURCE, f"attached_gpus says {attached.value}" if differs else "")


def gpu_readings(gpu: ET.Element, index: int) -> Readings:
    power = _first_of(gpu, "gpu_power_readings", "power_readings")
    mig_mode = _mode(gpu, "mig_mode/current_mig")
    return {
        "index": known(index, SOURCE),
        "name": _words(gpu, "product_name"),
        "uuid": _words(gpu, "uuid"),
        "pci_bus_id": _pci_bus_id(gpu),
        "architecture": _words(gpu, "product_architecture"),
        "vbios": _words(gpu, "vbios_version"),
        "gsp_firmware": _words(gpu, "gsp_firmware_version"),
        "memory_total": _number(gpu, "fb_memory_usage/total", _MIB),
        "memory_used": _number(gpu, "fb_memory_usage/used", _MIB),
        "memory_reserved": _number(gpu, "fb_memory_usage/reserved", _MIB),
        "clock_sm": _number(gpu, "clocks/sm_clock", _MHZ),
        "clock_mem": _number(gpu, "clocks/mem_clock", _MHZ),
        "clock_sm_max": _number(gpu, "max_clocks/sm_clock", _MHZ),
        "clock_mem_max": _number(gpu, "max_clocks/mem_clock", _MHZ),
        "application_clock_sm": _number(gpu, "applications_clocks/graphics_clock", _MHZ),
        "application_clock_mem": _number(gpu, "applications_clocks/mem_clock", _MHZ),
        **_power(power),
        "temperature": _number(gpu, "temperature/gpu_temp", _CELSIUS),
        "temperature_memory": _number(gpu, "temperature/memory_temp", _CELSIUS),
        "ecc_mode": _mode(gpu, "ecc_mode/current_ecc"),
        **_ecc_errors(gpu),
        **_remapped_rows(gpu),
        "mig_mode": mig_mode,
        "mig_devices": _mig_devices(gpu, mig_mode),
        "persistence_mode": _mode(gpu, "persistence_mode"),
        "compute_mode": _mode(gpu, "compute_mode"),
        "performance_state": _words(gpu, "performance_state"),
        **_throttling(gpu),
        "pcie_generation": _number(gpu, f"{_LINK}/pcie_gen/current_link_gen", _COUNT),
        "pcie_generation_max": _number(gpu, f"{_LINK}/pcie_gen/max_link_gen", _COUNT),
        "pcie_width": _number(gpu, f"{_LINK}/link_widths/current_link_width", _LANES),
        "pcie_width_max": _number(gpu, f"{_LINK}/link_widths/max_link_width", _LANES),
        "pcie_replays": _number(gpu, "pci/replay_counter", _COUNT),
        "utilization": _number(gpu, "utilization/gpu_util", _PERCENT),
        "utilization_memory": _number(gpu, "utilization/memory_util", _PERCENT),
        "processes": _processes(gpu),
    }


_LINK = "pci/pci_gpu_link_info"


def _text(node: Optional[ET.Element], path: str) -> Optional[str]:
    """The text of a leaf, None when it is absent; an empty tag is an empty text."""
    leaf = node.find(path) if node is not None else None
    if leaf is None:
        return _parent_marker(node, path)
    return leaf.text or ""


def _parent_marker(node: Optional[ET.Element], path: str) -> Optional[str]:
    """A whole block may be replaced by its marker: `<remapped_rows>N/A</remapped_rows>`."""
    while node is not None and "/" in path:
        path = path.rpartition("/")[0]
        block = node.find(path)
        if block is not None and len(block) == 0 and (block.text or "").strip():
            return block.text
    return None


def _words(node: Optional[ET.Element], path: str) -> Reading:
    return words(_text(node, path), SOURCE)


def _first_words(node: ET.Element, *paths: str) -> Reading:
    return first_known(*(_words(node, path) for path in paths))


def _mode(node: ET.Element, path: str) -> Reading:
    return lowered(_text(node, path), SOURCE)


def _number(node: Optional[ET.Element], path: str, scales: Mapping[str, float]) -> Reading:
    return number(_text(node, path), SOURCE, scales)


def _first_of(node: ET.Element, *paths: str) -> Optional[ET.Element]:
    return next((found for found in map(node.find, paths) if found is not None), None)


def _pci_bus_id(gpu: ET.Element) -> Reading:
    listed = _words(gpu, "pci/pci_bus_id")
    return first_known(listed, words(gpu.get("id"), SOURCE))


def _power(block: Optional[ET.Element]) -> Readings:
    def watts(*names: str) -> Reading:
        return first_known(*(_number(block, name, _WATTS) for name in names))

    return {
        "power_draw": watts("instant_power_draw", "power_draw", "average_power_draw"),
        "power_draw_average": watts("average_power_draw"),
        "power_limit": watts("current_power_limit", "enforced_power_limit", "power_limit"),
        "power_limit_default": watts("default_power_limit"),
        "power_limit_max": watts("max_power_limit"),
    }


def _throttling(gpu: ET.Element) -> Readings:
    block, stem = _reasons_block(gpu)
    states = {
        bit: lowered(_text(block, f"{stem}_{name}"), SOURCE)
        for bit, name in THROTTLE_REASONS.items()
    }
    told = {bit: state.value for bit, state in states.items() if state.known}
    counters = {f"throttle_{name}": _counter(gpu, name) for name in THROTTLE_COUNTERS}
    strange = sorted(set(told.values()) - {"active", "not_active"})
    if strange:
        gone = error(SOURCE, f"a throttle reason is `{strange[0]}`; expected Active or Not Active")
        return {"throttle_reasons": gone, "throttle_reason_names": gone, **counters}
    if not told:
        gone = first_known(*states.values())
        return {"throttle_reasons": gone, "throttle_reason_names": gone, **counters}
    mask = sum(bit for bit, state in told.items() if state == "active")
    untold = [name for bit, name in THROTTLE_REASONS.items() if bit not in told]
    detail = f"not told: {', '.join(untold)}" if untold else ""
    return {
        "throttle_reasons": known(mask, SOURCE, detail),
        "throttle_reason_names": known(reason_names(mask), SOURCE, detail),
        **counters,
    }


def _reasons_block(gpu: ET.Element) -> Tuple[Optional[ET.Element], str]:
    for era in ("event", "throttle"):
        block = gpu.find(f"clocks_{era}_reasons")
        if block is not None:
            return block, f"clocks_{era}_reason"
    return None, "clocks_event_reason"


_COUNTER_TAGS: Mapping[str, str] = {
    "sw_power_cap": "sw_power_cap",
    "sync_boost": "sync_boost",
    "sw_thermal": "sw_therm_slowdown",
    "hw_thermal": "hw_therm_slowdown",
    "hw_power_brake": "hw_power_brake",
}


def _counter(gpu: ET.Element, name: str) -> Reading:
    stem = "clocks_event_reasons_counters"
    return _number(gpu, f"{stem}/{stem}_{_COUNTER_TAGS[name]}", _MICROSECONDS)


def _ecc_errors(gpu: ET.Element) -> Readings:
    found: Readings = {}
    for suffix, block in (("", "volatile"), ("_lifetime", "aggregate")):
        for kind, old in (("corrected", "single_bit"), ("uncorrected", "double_bit")):
            found[f"ecc_{kind}{suffix}"] = _ecc_sum(gpu, f"ecc_errors/{block}", kind, old)
    return found


def _ecc_sum(gpu: ET.Element, block: str, kind: str, old: str) -> Reading:
    """The total where the tool gives one (before Ampere), else SRAM and DRAM errors added up."""
    total = _number(gpu, f"{block}/{old}/total", _COUNT)
    if total.known:
        return total
    word = "correctable" if kind == "corrected" else "uncorrectable"
    sram = [
        _number(gpu, f"{block}/sram_{word}{part}", _COUNT) for part in ("", "_parity", "_secded")
    ]
    parts = [reading for reading in sram if reading.known]
    dram = _number(gpu, f"{block}/dram_{word}", _COUNT)
    if parts and dram.known:
        return known(dram.value + sum(part.value for part in parts), SOURCE)
    return first_known(*(r for r in (dram, *sram, total) if not r.known))


def _remapped_rows(gpu: ET.Element) -> Readings:
    return {
        "remapped_rows_corrected": _number(gpu, "remapped_rows/remapped_row_corr", _COUNT),
        "remapped_rows_uncorrected": _number(gpu, "remapped_rows/remapped_row_unc", _COUNT),
        "remapped_rows_pending": _yes(gpu, "remapped_rows/remapped_row_pending"),
        "remapped_rows_failure": _yes(gpu, "remapped_rows/remapped_row_failure"),
    }


def _yes(gpu: ET.Element, path: str) -> Reading:
    answer = _mode(gpu, path)
    if answer.known and answer.value not in ("yes", "no"):
        return error(SOURCE, f"says `{answer.value}`; expected Yes or No")
    return converted(answer, lambda word: word == "yes")


def _mig_devices(gpu: ET.Element, mode: Reading) -> Reading:
    if not mode.known:
        return mode
    if mode.value == "disabled":
        return not_applicable(SOURCE, "MIG is disabled")
    devices: List[Dict[str, Any]] = []
    for device in gpu.iterfind("mig_devices/mig_device"):
        memory = _number(device, "fb_memory_usage/total", _MIB)
        devices.append({"name": None, "uuid": None, "memory_total": memory.value})
    return known(devices, SOURCE, "the XML tells neither names nor uuids of MIG devices")


def _processes(gpu: ET.Element) -> Reading:
    block = gpu.find("processes")
    if block is None:
        return unknown(SOURCE, "the tool does not mention it")
    marker = None if len(block) else missing(block.text or "", SOURCE)
    if marker is not None and (block.text or "").strip():
        return marker
    return known(joined(map(_process, block.iterfind("process_info"))), SOURCE)


def _process(info: ET.Element) -> Process:
    memory = _number(info, "used_memory", _MIB)
    name = _words(info, "process_name")
    pid = _number(info, "pid", _COUNT)
    kind = _words(info, "type")
    return Process(pid.value, name.value, memory.value, kind.value or "")
