"""Which GPUs of a host its environment leaves to a step.

A shared host is often divided by `CUDA_VISIBLE_DEVICES`: by a scheduler's allocation, by a login
profile, or by `env` in hosts.yaml. The driver's tools list every GPU all the same.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

Gpu = Mapping[str, Any]

# HIP reads CUDA's variable too, after its own.
_OF_CUDA = ("CUDA_VISIBLE_DEVICES",)
_OF_HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
VARIABLES = _OF_HIP

_NVIDIA_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]{27}")


def offered(gpus: Sequence[Gpu], env: Mapping[str, str]) -> list[Gpu]:
    """Those of `gpus` that `env` leaves visible, in the host's order; all when it says nothing.

    Args:
        gpus: as `environment.visible_gpus` lists them.
        env: what the step finds, before its own GPUs are named there.
    """
    return [gpu for gpu in gpus if _left(gpu, gpus, env)]


def whose(env: Mapping[str, str]) -> str:
    """Who decides which GPUs there are, for a message."""
    said = [f"{name}={env[name]}" for name in VARIABLES if name in env]
    return f"this host with {' and '.join(said)}" if said else "this host"


def is_nvidia(gpu: Gpu) -> bool:
    """Whether a GPU is told to CUDA, by its UUID; others are told to HIP, by number."""
    return bool(_NVIDIA_UUID.fullmatch(str(gpu["uuid"])))


def _left(gpu: Gpu, gpus: Sequence[Gpu], env: Mapping[str, str]) -> bool:
    names = _OF_CUDA if is_nvidia(gpu) else _OF_HIP
    value = next((env[name] for name in names if name in env), None)
    return value is None or any(gpu is named for named in _named(value, gpus))


def _named(value: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs of a list of numbers and beginnings of UUIDs.

    It ends at the first entry that names none, as CUDA's programming guide has it.
    """
    named: list[Gpu] = []
    for entry in value.split(","):
        found = [gpu for gpu in gpus if _is(entry.strip(), gpu)]
        if len(found) != 1:
            break
        named += found
    return named


def _is(entry: str, gpu: Gpu) -> bool:
    if entry.isdecimal():
        return gpu["index"] is not None and int(entry) == int(gpu["index"])
    return entry.startswith(("GPU-", "MIG-")) and str(gpu["uuid"]).startswith(entry)
