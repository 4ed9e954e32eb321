"""What a GPU did while a step ran: readings of a tool's lines, and a few numbers from many of them.

A reading that the tool does not give (`[N/A]`) is None, and none at all is not the same as zero.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from typing import Any, Collection, Dict, List, Optional, Sequence

from orchestrator.agent.environment.nvidia_names import reason_names

# nvidia-smi's own names, in the order of `Sample`; drivers from 535 on prefer "event reasons".
FIELDS = (
    "uuid",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
    "utilization.gpu",
    "memory.used",
)
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
HEADER = "at,uuid,sm_mhz,mem_mhz,power_w,temperature_c,busy_pct,memory_mib,held"

_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")


@dataclass(frozen=True)
class Sample:
    """One reading of one GPU. `held` is the mask of what holds its clocks down."""

    uuid: str
    sm_mhz: Optional[float]
    mem_mhz: Optional[float]
    power_w: Optional[float]
    temperature_c: Optional[float]
    busy_pct: Optional[float]
    memory_mib: Optional[float]
    held: Optional[int]

    def row(self, at: str) -> str:
        """A line of the file; an absent reading is empty."""
        numbers = (
            self.sm_mhz, self.mem_mhz, self.power_w, self.temperature_c, self.busy_pct,
            self.memory_mib,
        )  # fmt: skip
        told = ["" if number is None else f"{number:g}" for number in numbers]
        return ",".join([at, self.uuid, *told, "" if self.held is None else f"{self.held:#x}"])


def parsed(line: str) -> Optional[Sample]:
    """The sample of a line of `--format=csv,noheader,nounits`, None for any other line."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(FIELDS) + 1 or not re.fullmatch(r"[A-Za-z]+-[0-9a-fA-F-]{8,64}", cells[0]):
        return None
    sm, mem, power, temperature, busy, memory = (_number(cell) for cell in cells[1:-1])
    mask = int(cells[-1], 16) if _MASK.fullmatch(cells[-1]) else None
    return Sample(cells[0], sm, mem, power, temperature, busy, memory, mask)


def summary(samples: Sequence[Sample], uuids: Collection[str]) -> List[Dict[str, Any]]:
    """For each of these GPUs that was seen: lowest, median and highest of its readings.

    `held` is the share of samples in which each reason held the clocks down; idling is none.
    """
    told = []
    for uuid in uuids:
        own = [sample for sample in samples if sample.uuid == uuid]
        if own:
            told.append({"uuid": uuid, "samples": len(own), **_spreads(own), "held": _held(own)})
    return told


def _spreads(own: Sequence[Sample]) -> Dict[str, List[float]]:
    spreads = {}
    for name in ("sm_mhz", "mem_mhz", "power_w", "temperature_c", "busy_pct", "memory_mib"):
        values = [getattr(sample, name) for sample in own if getattr(sample, name) is not None]
        if values:
            spreads[name] = [min(values), statistics.median(values), max(values)]
    return spreads


def _held(own: Sequence[Sample]) -> Dict[str, float]:
    masks = [sample.held for sample in own if sample.held is not None]
    counts: Dict[str, int] = {}
    for mask in masks:
        for name in reason_names(mask):
            if name != "gpu_idle":
                counts[name] = counts.get(name, 0) + 1
    return {name: round(count / len(masks), 3) for name, count in counts.items()}


def _number(cell: str) -> Optional[float]:
    return float(cell) if _NUMBER.fullmatch(cell) else None
