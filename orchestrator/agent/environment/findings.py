"""What one vendor's tools found out about the GPUs of a host, whoever the vendor is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence

from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.field import Reading, Readings, known, merged
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


def completed(gpu: Readings, vendor: str, gap: Reading) -> Readings:
    """The same GPU with every key of the catalogue; a key that nobody told gets `gap`."""
    told = {**gpu, "vendor": known(vendor, "driver, device nodes and tools")}
    return {key: told.get(key, gap) for key in GPU_KEYS}


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
