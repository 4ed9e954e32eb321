"""What ran and what came out: launched kernel names, and a hash of an output."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch


def output_hash(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's bytes in memory order; equal hashes mean equal bits."""
    raw = tensor.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes()
    return hashlib.sha256(raw).hexdigest()


def kernel_names(run: Callable[[], Any]) -> list[str]:
    """Names of the device kernels `run` launches, by first launch; none without a GPU."""
    if not torch.cuda.is_available():
        return []
    activities = [torch.profiler.ProfilerActivity.CUDA]
    # Without keeping events it warns at its end, and that is what a log's last lines then show.
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        run()
        torch.cuda.synchronize()
    names = {event.name: None for event in profile.events() if event.device_type.name == "CUDA"}
    return [name for name in names if not name.startswith(("Memcpy", "Memset"))]
