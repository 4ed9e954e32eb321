"""What a GPU did while a job ran, as the journal tells it: lowest, median and highest readings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Readings the agent tells; see `orchestrator.agent.samples`.
READINGS = ("sm_mhz", "mem_mhz", "power_w", "temperature_c", "busy_pct", "memory_mib")


@dataclass(frozen=True)
class Spread:
    """Of one reading over a job's samples."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Watched:
    """One GPU during one job. A reading that no sample had is missing from `spreads`.

    Clocks, power, temperature and `held`, the share of samples in which a reason held the clocks
    down, are of the `busy` samples, of all where none was. None: nobody says how many were busy,
    as on a part of a GPU, or the agent is an older one; all count then.
    """

    uuid: str
    samples: int
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    busy: int | None = None


def watched(told: Any) -> tuple[Watched, ...]:
    """What a job's last event tells; older agents told nothing.

    Raises:
        TypeError, ValueError, KeyError: it is not what an agent tells.
    """
    return tuple(_one(entry) for entry in told)


def _one(entry: Mapping[str, Any]) -> Watched:
    spreads = {name: _spread(entry[name]) for name in READINGS if name in entry}
    held = {str(name): _finite(share) for name, share in dict(entry["held"]).items()}
    busy = int(entry["busy"]) if "busy" in entry else None
    return Watched(str(entry["uuid"]), int(entry["samples"]), spreads, held, busy)


def _spread(values: Any) -> Spread:
    low, median, high = (_finite(value) for value in values)
    return Spread(low, median, high)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no reading")
    return number
