"""Two short questions about the GPUs: what are they doing, and which of them could be lent."""

from __future__ import annotations

from typing import Any, Dict, List

from orchestrator.agent.environment import gpus
from orchestrator.agent.environment.field import Reading, Readings
from orchestrator.agent.environment.probe import Deadline
from orchestrator.agent.environment.processes import foreign
from orchestrator.agent.environment.surroundings import Surroundings
from orchestrator.agent.environment.together import ProbeError

_GIB = 1 << 30


def visible_gpus(deadline_s: float) -> List[Dict[str, Any]]:
    """`[{index, uuid, name, memory_total, memory_used, foreign_pids}]`, sizes in bytes.

    `index` is the vendor's own number; `foreign_pids` are all processes on the GPU, ours included,
    since the caller knows which are its own. A value is None when it could not be read, and
    `foreign_pids` is None when the processes cannot be seen, which is not the same as none.

    Raises ProbeError when a GPU or its driver is here and nobody told of it in time: an empty list
    means that there is no GPU.
    """
    host = Surroundings.here()
    gathered = gpus.gather(host, Deadline(deadline_s), glance=True)
    number = gpus.count(gathered)
    if not number.known:
        raise ProbeError(f"the GPUs of this host could not be listed: {number.detail}")
    return [_lendable(gpu) for gpu in gathered.gpus]


def _lendable(gpu: Readings) -> Dict[str, Any]:
    others = foreign(gpu["processes"], gpu["memory_used"], own_pids=())
    keys = ("index", "uuid", "name", "memory_total", "memory_used")
    pids = [entry["pid"] for entry in others.value] if others.known else None
    return {**{key: gpu[key].value for key in keys}, "foreign_pids": pids}


def gpu_state_text(deadline_s: float) -> str:
    """A few lines for a step's log: use, memory and processes of each GPU. Empty without a GPU."""
    host = Surroundings.here()
    gathered = gpus.gather(host, Deadline(deadline_s), glance=True)
    number = gpus.count(gathered)
    if not number.known:
        return f"GPU state: not known: {number.detail}\n" if gathered.traces else ""
    return "".join(line + "\n" for gpu in gathered.gpus for line in _lines(gpu))


def _lines(gpu: Readings) -> List[str]:
    state = ", ".join(
        [
            f"{_told(gpu['utilization'])} % busy",
            f"{_gib(gpu['memory_used'])} of {_gib(gpu['memory_total'])} GiB in use",
            f"{_told(gpu['clock_sm'])} MHz",
            f"{_told(gpu['power_draw'])} W",
            f"{_told(gpu['temperature'])} C",
        ]
    )
    reasons = gpu["throttle_reason_names"]
    held = f"; clocks held by {', '.join(reasons.value) or 'nothing'}" if reasons.known else ""
    return [
        f"GPU {_told(gpu['index'])} {_told(gpu['name'])}: {state}{held}",
        *_process_lines(gpu["processes"]),
    ]


def _process_lines(listing: Reading) -> List[str]:
    if not listing.known:
        return [f"  processes not known: {listing.detail}"]
    if not listing.value:
        return ["  no process on it"]
    return [
        f"  process {entry['pid']} {entry['name'] or '(no name)'}: {_size(entry['memory'])}"
        for entry in listing.value
    ]


def _size(memory: object) -> str:
    return f"{memory / _GIB:.2f} GiB" if isinstance(memory, int) else "memory not known"


def _told(reading: Reading) -> str:
    return str(reading.value) if reading.known else "?"


def _gib(reading: Reading) -> str:
    return f"{reading.value / _GIB:.1f}" if reading.known else "?"
