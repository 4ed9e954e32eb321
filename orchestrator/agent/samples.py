"""What a GPU did while a step ran: readings of a tool's lines, and a few numbers from many of them.

A reading that the tool does not give (`[N/A]`) is None, and none at all is not the same as zero.
"""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import dataclass
from typing import Any, Collection, Dict, List, Optional, Sequence

from orchestrator.agent.environment.nvidia_names import reason_names

# nvidia-smi's own names, in the order of `Sample`; drivers from 535 on prefer "event reasons".
FIELDS = (
    "timestamp",
    "uuid",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
    "utilization.gpu",
    "memory.used",
)
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
OF_BUSY = ("sm_mhz", "mem_mhz", "power_w", "temperature_c")
OF_ALL = ("busy_pct", "memory_mib")
HEADER = "at,uuid,sm_mhz,mem_mhz,power_w,temperature_c,busy_pct,memory_mib,held"

_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?")
_UUID = re.compile(r"[A-Za-z]+-[0-9a-fA-F-]{8,64}")
_CLOCK = re.compile(r"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)(\.\d{1,6})?")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")


@dataclass(frozen=True)
class Sample:
    """One reading of one GPU. `held` is the mask of what holds its clocks down.

    `at` is the tool's own time, seconds since 1970: its lines may come late, and many at once.
    """

    at: float
    uuid: str
    sm_mhz: Optional[float]
    mem_mhz: Optional[float]
    power_w: Optional[float]
    temperature_c: Optional[float]
    busy_pct: Optional[float]
    memory_mib: Optional[float]
    held: Optional[int]

    def row(self) -> str:
        """A line of the file, with the time in UTC; an absent reading is empty."""
        seconds, milliseconds = divmod(round(self.at * 1000), 1000)
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        numbers = (
            self.sm_mhz, self.mem_mhz, self.power_w, self.temperature_c, self.busy_pct,
            self.memory_mib,
        )  # fmt: skip
        told = ["" if number is None else f"{number:g}" for number in numbers]
        held = "" if self.held is None else f"{self.held:#x}"
        return ",".join([f"{clock}.{milliseconds:03}Z", self.uuid, *told, held])


def parsed(line: str) -> Optional[Sample]:
    """The sample of a line of `--format=csv,noheader,nounits`, None for any other line."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(FIELDS) + 1 or not _UUID.fullmatch(cells[1]):
        return None
    at = _time(cells[0])
    if at is None:
        return None
    sm, mem, power, temperature, busy, memory = (_number(cell) for cell in cells[2:-1])
    mask = int(cells[-1], 16) if _MASK.fullmatch(cells[-1]) else None
    return Sample(at, cells[1], sm, mem, power, temperature, busy, memory, mask)


def summary(samples: Sequence[Sample], uuids: Collection[str]) -> List[Dict[str, Any]]:
    """For each of these GPUs that was seen: lowest, median and highest of its readings.

    Clocks, power, temperature and what held the clocks are those of the `busy` samples, in which
    some kernel ran: most of a step may be imports and compilation, on an idle card. Where none was
    busy, or no sample says (`busy` is missing then), they are those of all. `held` is the share of
    samples with each reason; idling is none.
    """
    told = []
    for uuid in uuids:
        own = [sample for sample in samples if sample.uuid == uuid]
        busy = [sample for sample in own if sample.busy_pct]
        if own:
            counts = {"samples": len(own)}
            if any(sample.busy_pct is not None for sample in own):
                counts["busy"] = len(busy)
            spreads = {**_spreads(own, OF_ALL), **_spreads(busy or own, OF_BUSY)}
            told.append({"uuid": uuid, **counts, **spreads, "held": _held(busy or own)})
    return told


def _spreads(own: Sequence[Sample], names: Sequence[str]) -> Dict[str, List[float]]:
    spreads = {}
    for name in names:
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


def _time(cell: str) -> Optional[float]:
    """`2026/11/30 00:17:30.123`, in the host's own time zone."""
    found = _CLOCK.fullmatch(cell)
    if found is None:
        return None
    try:
        whole = time.mktime(time.strptime(found[1], "%Y/%m/%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return whole + float(found[2] or 0)


def _number(cell: str) -> Optional[float]:
    return float(cell) if _NUMBER.fullmatch(cell) else None
