"""What one vendor's tools found out about the GPUs of a host, whoever the vendor is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence

from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import (
    ERROR,
    NOT_MENTIONED,
    UNKNOWN,
    Reading,
    Readings,
    known,
    merged,
    not_applicable,
)
from orchestrator.agent.environment.raw import Output


@dataclass
class Findings:
    """`failure` is set when not a single GPU was told; `hung` when a tool never came to an end."""

    vendor: str
    driver: Readings = field(default_factory=dict)
    gpus: List[Readings] = field(default_factory=list)
    topology: Readings = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)
    outputs: List[Output] = field(default_factory=list)
    failure: Optional[Reading] = None
    hung: bool = False


# Keys that mean something for one vendor's devices only.
_NVIDIA_ONLY = frozenset(
    [
        "application_clock_mem",
        "application_clock_sm",
        "compute_capability",
        "compute_mode",
        "cores",
        "gsp_firmware",
        "mig_devices",
        "mig_mode",
        "nvlinks_active",
        "persistence_mode",
        "remapped_rows_corrected",
        "remapped_rows_failure",
        "remapped_rows_pending",
        "remapped_rows_uncorrected",
        "throttle_hw_power_brake",
        "throttle_hw_thermal",
        "throttle_sw_power_cap",
        "throttle_sw_thermal",
        "throttle_sync_boost",
    ]
)
_AMD_ONLY = frozenset(["compute_units", "partition"])
_MEANINGLESS = {
    "nvidia": _AMD_ONLY,
    "amd": _NVIDIA_ONLY,
    "hygon": _NVIDIA_ONLY,
    "jetson": _AMD_ONLY | _NVIDIA_ONLY - {"compute_capability", "cores"},
}


def completed(gpu: Readings, vendor: str, gap: Reading) -> Readings:
    """The same GPU with every key of the catalogue; a key that nobody told gets `gap`."""
    told = {key: _explained(reading, gap) for key, reading in gpu.items()}
    told["vendor"] = known(vendor, "driver, device nodes and tools")
    absent = not_applicable(vendor, f"means nothing for a device of {vendor}")
    meaningless = _MEANINGLESS[vendor]
    return {key: told.get(key, absent if key in meaningless else gap) for key in GPU_KEYS}


def _explained(reading: Reading, gap: Reading) -> Reading:
    """Where one source is silent and another failed, the failure is why there is no value."""
    silent = reading.state == UNKNOWN and NOT_MENTIONED in reading.detail
    return gap if silent and gap.state == ERROR else reading


def matched(first: Sequence[Readings], others: Sequence[Readings]) -> List[Readings]:
    """Join two listings of the same GPUs: by uuid, else by PCI bus id, else by their order.

    A GPU that only one listing has is kept: the other tool lost it.
    """
    rest = list(others)
    result: List[Readings] = []
    for gpu in first:
        twin = _twin(gpu, rest, in_order=len(first) == len(others))
        if twin is not None:
            rest.remove(twin)
        result.append(merged(gpu, twin or {}))
    return result + rest


def _twin(
    gpu: Mapping[str, Reading], others: Sequence[Readings], *, in_order: bool
) -> Optional[Readings]:
    names = [key for key in ("uuid", "pci_bus_id") if _value(gpu, key) is not None]
    for key in names:
        for other in others:
            if _same_device(_value(gpu, key), _value(other, key)):
                return other
    if in_order and not names:
        return next((o for o in others if _value(o, "index") == _value(gpu, "index")), None)
    return None


def _value(gpu: Mapping[str, Reading], key: str) -> object:
    reading = gpu.get(key)
    return reading.value if reading is not None else None


def _same_device(left: object, right: object) -> bool:
    """Whether two uuids or PCI bus ids are one; domains are written with 4 or 8 digits."""
    return str(left).lower().lstrip("0:") == str(right).lower().lstrip("0:")
