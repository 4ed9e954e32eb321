"""What NVML tells about the driver and about one GPU, as readings under the snapshot's keys."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    known,
    not_applicable,
    unknown,
    whole,
)
from orchestrator.agent.environment.nvidia_names import (
    COMPUTE_MODES,
    THROTTLE_COUNTERS,
    reason_names,
)
from orchestrator.agent.environment.nvml_library import NOTHING, SOURCE, Library
from orchestrator.agent.environment.processes import Process, joined

_MAX_NVLINKS = 36


def driver_readings(library: Library) -> Readings:
    return {
        "driver.version": library.get("nvmlSystemGetDriverVersion", change=_text),
        "driver.cuda": library.get("nvmlSystemGetCudaDriverVersion_v2", change=_cuda_version),
        "driver.nvml": library.get("nvmlSystemGetNVMLVersion", change=_text),
        "gpu.count": library.get("nvmlDeviceGetCount"),
    }


def gpu_readings(library: Library, index: int) -> Readings:
    """Everything about one GPU. When not even its handle can be had, each key says why."""
    handle = library.get("nvmlDeviceGetHandleByIndex", index)
    if not handle.known:
        return {"handle": handle}
    device = handle.value
    found = {
        key: library.get(name, device, *arguments, change=change)
        for key, name, arguments, change in _CALLS
    }
    found["index"] = known(index, SOURCE)
    found.update(_memory(library, device))
    found.update(_throttling(library, device))
    found.update(_remapped_rows(library, device))
    found.update(_fields(library, device))
    found["mig_devices"] = _mig_devices(library, device, found["mig_mode"])
    found["nvlinks_active"] = _active_nvlinks(library, device)
    found["processes"] = _processes(library, device)
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _switch(value: int) -> str:
    return "enabled" if value else "disabled"


def _current(pair: Sequence[int]) -> str:
    return _switch(pair[0])


def _milliwatts(value: float) -> Any:
    return whole(value / 1000)


def _compute_mode(value: int) -> Optional[str]:
    return COMPUTE_MODES.get(value)


def _performance_state(value: int) -> Optional[str]:
    return f"P{value}" if 0 <= value <= 15 else None


def _same(value: Any) -> Any:
    return value


_GRAPHICS, _SM, _MEM = 0, 1, 2
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _LIFETIME = 0, 1

_CALLS: Tuple[Tuple[str, str, Tuple[Any, ...], Callable[[Any], Any]], ...] = (
    ("name", "nvmlDeviceGetName", (), _text),
    ("uuid", "nvmlDeviceGetUUID", (), _text),
    ("pci_bus_id", "nvmlDeviceGetPciInfo", (), lambda pci: _text(pci.busId)),
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability", (), lambda v: f"{v[0]}.{v[1]}"),
    ("cores", "nvmlDeviceGetNumGpuCores", (), _same),
    ("vbios", "nvmlDeviceGetVbiosVersion", (), _text),
    ("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion", (), _text),
    ("memory_bus_width", "nvmlDeviceGetMemoryBusWidth", (), _same),
    ("clock_sm", "nvmlDeviceGetClockInfo", (_SM,), _same),
    ("clock_mem", "nvmlDeviceGetClockInfo", (_MEM,), _same),
    ("clock_sm_max", "nvmlDeviceGetMaxClockInfo", (_SM,), _same),
    ("clock_mem_max", "nvmlDeviceGetMaxClockInfo", (_MEM,), _same),
    ("application_clock_sm", "nvmlDeviceGetApplicationsClock", (_GRAPHICS,), _same),
    ("application_clock_mem", "nvmlDeviceGetApplicationsClock", (_MEM,), _same),
    ("power_limit", "nvmlDeviceGetEnforcedPowerLimit", (), _milliwatts),
    ("power_limit_default", "nvmlDeviceGetPowerManagementDefaultLimit", (), _milliwatts),
    (
        "power_limit_max",
        "nvmlDeviceGetPowerManagementLimitConstraints",
        (),
        lambda pair: _milliwatts(pair[1]),
    ),
    ("energy", "nvmlDeviceGetTotalEnergyConsumption", (), _same),
    ("temperature", "nvmlDeviceGetTemperature", (0,), _same),
    ("ecc_mode", "nvmlDeviceGetEccMode", (), _current),
    ("ecc_corrected", "nvmlDeviceGetTotalEccErrors", (_CORRECTED, _VOLATILE), _same),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _VOLATILE), _same),
    ("ecc_corrected_lifetime", "nvmlDeviceGetTotalEccErrors", (_CORRECTED, _LIFETIME), _same),
    ("ecc_uncorrected_lifetime", "nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _LIFETIME), _same),
    ("mig_mode", "nvmlDeviceGetMigMode", (), _current),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), _switch),
    ("compute_mode", "nvmlDeviceGetComputeMode", (), _compute_mode),
    ("performance_state", "nvmlDeviceGetPerformanceState", (), _performance_state),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), _same),
    ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), _same),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), _same),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), _same),
    ("pcie_replays", "nvmlDeviceGetPcieReplayCounter", (), _same),
    ("utilization", "nvmlDeviceGetUtilizationRates", (), lambda rates: rates.gpu),
    ("utilization_memory", "nvmlDeviceGetUtilizationRates", (), lambda rates: rates.memory),
)


def _memory(library: Library, device: Any) -> Readings:
    """Version 2 of the call tells the driver's own share apart; version 1 counts it as used."""
    v2 = library.constant("nvmlMemory_v2", 0x02000028)
    parts = {"memory_total": "total", "memory_used": "used", "memory_reserved": "reserved"}
    info = library.get("nvmlDeviceGetMemoryInfo", device, v2)
    detail = ""
    if not info.known:
        info = library.get("nvmlDeviceGetMemoryInfo", device)
        detail = "this driver counts what it reserves as used"
    if not info.known:
        return dict.fromkeys(parts, info)
    found: Readings = {}
    for key, part in parts.items():
        size = getattr(info.value, part, None)
        if size is None or size in NOTHING:
            found[key] = unknown(info.source, f"NVML does not tell `{part}` here")
        else:
            found[key] = known(size, info.source, detail if part == "used" else "")
    return found


def _throttling(library: Library, device: Any) -> Readings:
    mask = library.get("nvmlDeviceGetCurrentClocksEventReasons", device)
    if not mask.known:
        mask = library.get("nvmlDeviceGetCurrentClocksThrottleReasons", device)
    if not mask.known:
        return {"throttle_reasons": mask, "throttle_reason_names": mask}
    return {
        "throttle_reasons": mask,
        "throttle_reason_names": known(reason_names(mask.value), mask.source),
    }


def _remapped_rows(library: Library, device: Any) -> Readings:
    rows = library.get("nvmlDeviceGetRemappedRows", device)
    names = ("corrected", "uncorrected", "pending", "failure")
    if not rows.known:
        return {f"remapped_rows_{name}": rows for name in names}
    corrected, uncorrected, pending, failure = rows.value
    return {
        "remapped_rows_corrected": known(corrected, rows.source),
        "remapped_rows_uncorrected": known(uncorrected, rows.source),
        "remapped_rows_pending": known(bool(pending), rows.source),
        "remapped_rows_failure": known(bool(failure), rows.source),
    }


_MEMORY_TEMPERATURE, _POWER_AVERAGE, _POWER_NOW = 82, 185, 186


def _fields(library: Library, device: Any) -> Readings:
    """Values NVML offers by number only. Drivers before 530 know neither power field."""
    wanted: Dict[str, Tuple[int, Callable[[Any], Any]]] = {
        "temperature_memory": (_MEMORY_TEMPERATURE, _same),
        "power_draw": (_POWER_NOW, _milliwatts),
        "power_draw_average": (_POWER_AVERAGE, _milliwatts),
        **{f"throttle_{name}": (number, _same) for name, number in THROTTLE_COUNTERS.items()},
    }
    found = {key: library.field(device, number, change) for key, (number, change) in wanted.items()}
    if not found["power_draw"].known:
        average = library.get("nvmlDeviceGetPowerUsage", device, change=_milliwatts)
        if average.known:
            found["power_draw"] = known(average.value, average.source, "averaged by the driver")
    return found


def _mig_devices(library: Library, device: Any, mode: Reading) -> Reading:
    if not mode.known:
        return mode
    if mode.value == "disabled":
        return not_applicable(SOURCE, "MIG is disabled")
    highest = library.get("nvmlDeviceGetMaxMigDeviceCount", device)
    if not highest.known:
        return highest
    devices = []
    for index in range(highest.value):
        handle = library.get("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
        if handle.known:
            devices.append(_mig_device(library, handle.value))
    return known(devices, f"{SOURCE} nvmlDeviceGetMigDeviceHandleByIndex")


def _mig_device(library: Library, handle: Any) -> Dict[str, Any]:
    memory = library.get("nvmlDeviceGetMemoryInfo", handle, change=lambda info: info.total)
    return {
        "name": library.get("nvmlDeviceGetName", handle, change=_text).value,
        "uuid": library.get("nvmlDeviceGetUUID", handle, change=_text).value,
        "memory_total": memory.value,
    }


def _active_nvlinks(library: Library, device: Any) -> Reading:
    first = library.get("nvmlDeviceGetNvLinkState", device, 0)
    if not first.known:
        return first
    states = [library.get("nvmlDeviceGetNvLinkState", device, n) for n in range(_MAX_NVLINKS)]
    return known(sum(1 for state in states if state.value == 1), first.source)


def _processes(library: Library, device: Any) -> Reading:
    """`[{pid, name, memory, type}]`; type C computes, G draws, C+G does both."""
    compute = library.get("nvmlDeviceGetComputeRunningProcesses", device)
    graphics = library.get("nvmlDeviceGetGraphicsRunningProcesses", device)
    if not compute.known:
        return compute
    listings = (("C", compute.value), ("G", graphics.value or []))
    return known(
        joined(
            Process(
                process.pid,
                library.get("nvmlSystemGetProcessName", process.pid, change=_text).value,
                None if process.usedGpuMemory in NOTHING else process.usedGpuMemory,
                kind,
            )
            for kind, listing in listings
            for process in listing
        ),
        compute.source,
    )
