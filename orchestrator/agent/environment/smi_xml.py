"""The document `nvidia-smi -q -x` prints, read into the snapshot's keys.

The XML of drivers 418 to 595 was read for this. Names changed on the way, and the DTD number does
not decide which ones stand there, so every name is looked for: throttle and event reasons,
`power_readings` and `gpu_power_readings`, and the KMD and UMD names driver 610 uses elsewhere.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional
from xml.etree import ElementTree as ET

from orchestrator.agent.environment.field import (
    NOT_MENTIONED,
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
    names = _active_reasons(gpu)
    return {
        "throttle_reasons": converted(names, _mask),
        "throttle_reason_names": names,
        **{f"throttle_{name}": _counter(gpu, name) for name in THROTTLE_COUNTERS},
    }


def _active_reasons(gpu: ET.Element) -> Reading:
    """The names of the active reasons. One that stands there without a value makes all unknown."""
    block = _first_of(gpu, "clocks_event_reasons", "clocks_throttle_reasons")
    if block is None:
        return unknown(SOURCE, NOT_MENTIONED)
    if len(block) == 0:
        return missing(block.text or "", SOURCE) or unknown(SOURCE, "the tool leaves it empty")
    active: List[str] = []
    for leaf in block:
        name = _REASON.sub("", leaf.tag)
        state = lowered(leaf.text or "", SOURCE)
        if not state.known:
            return state
        if state.value not in ("active", "not_active"):
            return error(SOURCE, f"{name} is `{state.value}`; expected Active or Not Active")
        if state.value == "active":
            active.append(name)
    return known(active, SOURCE)


_REASON = re.compile(r"clocks_(event|throttle)_reason_")


def _mask(names: List[str]) -> int:
    return sum(bit for bit, name in THROTTLE_REASONS.items() if name in names)


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
    """The total where the tool gives one (before Ampere), else SRAM and DRAM errors added up.

    A part that stands there without a value makes the sum unknown: it may be the one that counts.
    """
    total = _number(gpu, f"{block}/{old}/total", _COUNT)
    word = "correctable" if kind == "corrected" else "uncorrectable"
    names = (f"sram_{word}", f"sram_{word}_parity", f"sram_{word}_secded", f"dram_{word}")
    parts = [
        _number(gpu, f"{block}/{name}", _COUNT)
        for name in names
        if gpu.find(f"{block}/{name}") is not None
    ]
    if total.known or not parts:
        return total
    untold = [part for part in parts if not part.known]
    return first_known(*untold) if untold else known(sum(p.value for p in parts), SOURCE)


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
        return unknown(SOURCE, NOT_MENTIONED)
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
