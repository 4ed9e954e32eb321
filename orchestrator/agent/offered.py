"""Which GPUs of a host its environment leaves to a step.

A shared host is often divided by `CUDA_VISIBLE_DEVICES` or `ROCR_VISIBLE_DEVICES`: by a scheduler's
allocation, by a login profile, or by `env` in hosts.yaml. The driver's tools list every GPU all the
same.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

Gpu = Mapping[str, Any]

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
VARIABLES = (CUDA, HIP, ROCR)

# Tells a run that a step starts what its own run was left with, before a lease narrowed it.
BEFORE = "ORCH_GPUS_BEFORE"

_LONGEST_NUMBER = 10
_NVIDIA_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{27}")


def offered(gpus: Sequence[Gpu], env: Mapping[str, str]) -> list[Gpu]:
    """Those of `gpus` that `env` leaves visible, in the host's order; all when it says nothing.

    ROCm counts in two steps: the runtime sees what `ROCR_VISIBLE_DEVICES` names, and HIP's own
    variable, or CUDA's, numbers those from 0 (AMD's guide on GPU isolation).

    Args:
        gpus: as `environment.visible_gpus` lists them.
        env: what the step finds, before its own GPUs are named there.
    """
    nvidia = [gpu for gpu in gpus if is_nvidia(gpu)]
    others = [gpu for gpu in gpus if not is_nvidia(gpu)]
    left = _named(env.get(CUDA), nvidia) + _seen_by_hip(others, env)
    return [gpu for gpu in gpus if gpu in left]


def _seen_by_hip(gpus: Sequence[Gpu], env: Mapping[str, str]) -> list[Gpu]:
    seen = _named(env.get(ROCR), gpus)
    numbered = [{**gpu, "index": at} for at, gpu in enumerate(seen)] if ROCR in env else seen
    left = _named(env.get(HIP, env.get(CUDA)), numbered)
    return [seen[at] for at, gpu in enumerate(numbered) if gpu in left]


def whose(env: Mapping[str, str]) -> str:
    """Who decides which GPUs there are, for a message."""
    said = [f"{name}={env[name]}" for name in VARIABLES if name in env]
    return f"this host with {' and '.join(said)}" if said else "this host"


def is_nvidia(gpu: Gpu) -> bool:
    """Whether a GPU is told to CUDA, by its UUID; others are told to HIP, by number."""
    return bool(_NVIDIA_UUID.fullmatch(str(gpu["uuid"])))


def handed_on(env: Mapping[str, str]) -> dict[str, str]:
    """What tells a run started by a step which GPUs its own run was left, in one variable."""
    return {BEFORE: ";".join(f"{name}={env[name]}" for name in VARIABLES if name in env)}


def taken_back(env: Mapping[str, str]) -> dict[str, str]:
    """`env` as it was before a step of another run leased GPUs; unchanged where none did."""
    before = env.get(BEFORE)
    if before is None:
        return dict(env)
    kept = {name: value for name, value in env.items() if name not in (*VARIABLES, BEFORE)}
    pairs = (pair.partition("=") for pair in before.split(";") if pair)
    return {**kept, **{name: value for name, _, value in pairs}}


def _named(value: str | None, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs of a list of numbers and beginnings of UUIDs; all when there is no list.

    It ends at the first entry that names none, as CUDA's programming guide has it.
    """
    if value is None:
        return list(gpus)
    named: list[Gpu] = []
    for entry in value.split(","):
        found = [gpu for gpu in gpus if _is(entry.strip(), gpu)]
        if len(found) != 1:
            break
        named += found
    return named


def _is(entry: str, gpu: Gpu) -> bool:
    if entry.isascii() and entry.isdecimal() and len(entry) < _LONGEST_NUMBER:
        return gpu["index"] is not None and int(entry) == int(gpu["index"])
    return entry.startswith(("GPU-", "MIG-")) and str(gpu["uuid"]).startswith(entry)
