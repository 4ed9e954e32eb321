"""AMD GPUs by `amd-smi ... --json`.

Some versions and sub-commands wrap the list of GPUs in `gpu_data` and some do not, within one
version too. Numbers are bare or objects of `value` and `unit`; a missing one is the text `N/A`,
which can also stand for a whole object.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    converted,
    first_known,
    known,
    missing,
    unknown,
)
from orchestrator.agent.environment.processes import Process, joined
from orchestrator.agent.environment.tool_json import Block
from orchestrator.agent.environment.topology import Links

# The tool writes MB and means 2**20 bytes: an MI210 of 64 GiB has 65520 of them.
_BYTES = {"B": 1.0, "KB": 1024.0, "MB": float(1 << 20), "GB": float(1 << 30)}
_MHZ = {"MHz": 1.0}
_WATTS = {"W": 1.0}
_CELSIUS = {"C": 1.0}
_PERCENT = {"%": 1.0}
_COUNT = {"": 1.0}
# Transfer rate of one lane in GT/s -> PCIe generation.
_GENERATIONS = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}

Documents = Mapping[str, Any]


def gpu_entries(document: Any) -> Dict[int, Mapping[str, Any]]:
    """`{gpu number: entry}`, wrapped or not. Raises ValueError when it is no list of GPUs."""
    entries = document.get("gpu_data") if isinstance(document, Mapping) else document
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError("the JSON holds no list of GPUs")
    return {int(entry["gpu"]): entry for entry in entries if "gpu" in entry}


def gpu_readings(index: int, entries: Documents) -> Readings:
    """One GPU. `entries` holds its entry of each sub-command that answered: static, metric ..."""
    static = Block(entries.get("static"), "amd-smi static")
    metric = Block(entries.get("metric"), "amd-smi metric")
    listed = Block(entries.get("list"), "amd-smi list")
    return {
        "index": known(index, "amd-smi"),
        "name": static.words("asic/market_name"),
        "uuid": first_known(listed.words("uuid"), static.words("uuid")),
        "pci_bus_id": first_known(listed.words("bdf"), static.words("bus/bdf")),
        "architecture": static.words("asic/target_graphics_version"),
        "compute_units": static.amount("asic/num_compute_units", _COUNT),
        "vbios": first_known(static.words("vbios/version"), static.words("vbios/name")),
        "memory_total": first_known(
            metric.amount("mem_usage/total_vram", _BYTES), static.amount("vram/size", _BYTES)
        ),
        "memory_used": metric.amount("mem_usage/used_vram", _BYTES),
        "memory_bus_width": static.amount("vram/bit_width", _COUNT),
        "clock_sm": metric.amount("clock/gfx_0/clk", _MHZ),
        "clock_mem": metric.amount("clock/mem_0/clk", _MHZ),
        "clock_sm_max": first_known(
            metric.amount("clock/gfx_0/max_clk", _MHZ), _highest(static, "clock/sys")
        ),
        "clock_mem_max": first_known(
            metric.amount("clock/mem_0/max_clk", _MHZ), _highest(static, "clock/mem")
        ),
        "power_draw": _first(metric, _WATTS, "power/socket_power", "power/current_socket_power"),
        "power_draw_average": metric.amount("power/average_socket_power", _WATTS),
        "power_limit": static.amount("limit/socket_power", _WATTS),
        "power_limit_max": static.amount("limit/max_power", _WATTS),
        "temperature": _first(metric, _CELSIUS, "temperature/hotspot", "temperature/edge"),
        "temperature_memory": metric.amount("temperature/mem", _CELSIUS),
        "ecc_mode": static.mode("ras/ecc_block_state/UMC"),
        "ecc_corrected": metric.amount("ecc/total_correctable_count", _COUNT),
        "ecc_uncorrected": metric.amount("ecc/total_uncorrectable_count", _COUNT),
        "partition": _partition(static),
        "performance_state": metric.mode("perf_level"),
        **_throttling(metric),
        "pcie_generation": _generation(metric, "pcie/speed"),
        "pcie_generation_max": _generation(static, "bus/max_pcie_speed"),
        "pcie_width": metric.amount("pcie/width", _COUNT),
        "pcie_width_max": static.amount("bus/max_pcie_width", _COUNT),
        "pcie_replays": metric.amount("pcie/replay_count", _COUNT),
        "utilization": metric.amount("usage/gfx_activity", _PERCENT),
        "utilization_memory": metric.amount("usage/umc_activity", _PERCENT),
        "numa_node": static.amount("numa/node", _COUNT),
        "processes": processes(Block(entries.get("process"), "amd-smi process")),
    }


def _first(block: Block, scales: Mapping[str, float], *paths: str) -> Reading:
    return first_known(*(block.amount(path, scales) for path in paths))


def _highest(static: Block, path: str) -> Reading:
    """The fastest of the levels the device offers."""
    levels = static.at(f"{path}/frequency_levels")
    if not isinstance(levels, Mapping) or not levels:
        return static.words(path)
    rates = [Block(levels, static.source).amount(name, _MHZ) for name in levels]
    told = [rate.value for rate in rates if rate.known]
    return known(max(told), static.source) if told else rates[0]


def _partition(static: Block) -> Reading:
    compute = static.words("partition/compute_partition")
    memory = static.words("partition/memory_partition")
    if compute.known and memory.known:
        return known(f"{compute.value}, {memory.value}", static.source)
    return compute if not compute.known else memory


def _throttling(metric: Block) -> Readings:
    """The tool's word is known to be THROTTLED at idle from a bit that is always set: not kept."""
    word = metric.words("power/throttle_status")
    if word.known:
        word = unknown(metric.source, f"only the word `{word.value}` is told, not the reasons")
    return {"throttle_reasons": word, "throttle_reason_names": word}


def _generation(block: Block, path: str) -> Reading:
    rate = block.amount(path, {"GT/s": 1.0, "": 1.0})
    if rate.known and rate.value not in _GENERATIONS:
        return unknown(block.source, f"{rate.value} GT/s is the rate of no PCIe generation")
    return converted(rate, _GENERATIONS.__getitem__)


def processes(block: Block) -> Reading:
    """`mem_usage` can be 0 beside 20 GB of VRAM, so the VRAM is taken where it is told."""
    listing = block.at("process_list")
    if not isinstance(listing, list):
        return block.words("process_list")
    found: List[Process] = []
    for entry in listing:
        info = entry.get("process_info") if isinstance(entry, Mapping) else entry
        if isinstance(info, str):
            marker = missing(info, block.source)
            if marker is not None:
                return marker
            continue  # a sentence: no process is running
        found.append(_process(Block(info, block.source)))
    return known(joined(found), block.source)


def _process(info: Block) -> Process:
    pid = info.amount("pid", _COUNT)
    vram = _first(info, _BYTES, "memory_usage/vram_mem", "vram_mem", "mem_usage")
    return Process(pid.value, info.words("name").value, vram.value, "C")


_KERNEL_BANNER = re.compile(r"Linux\s*version\s*([\w.-]+?)\s*\(")


def driver_version(static: Block) -> Reading:
    """The driver of the kernel tree reports the whole banner of the kernel as its version."""
    version = static.words("driver/version")
    banner = _KERNEL_BANNER.match(version.value) if version.known else None
    if banner is None:
        return version
    return known(f"in-tree, kernel {banner.group(1)}", version.source)


def links(document: Any) -> Links:
    """The link types of `amd-smi topology --json`. Raises ValueError when it has another shape."""
    found: Links = {}
    for index, entry in gpu_entries(document).items():
        listed = entry.get("links")
        if not isinstance(listed, list):
            raise ValueError("the topology has no list of links")
        found[f"GPU{index}"] = {f"GPU{link['gpu']}": _link_type(link) for link in listed}
    return found


def _link_type(link: Mapping[str, Any]) -> str:
    kind = str(link.get("link_type", "unknown"))
    return "X" if kind == "SELF" else kind
