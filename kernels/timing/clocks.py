"""Clock, power and throttle state of the GPU beside each measurement, where NVML can tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True)
class Clocks:
    """One reading; None is "could not be read", never 0.

    Attributes:
        sm_mhz: streaming multiprocessor clock.
        power_w: board power.
        throttle_mask: NVML clock event reasons (0x4 software power cap, 0x8 hardware slowdown,
            0x20 and 0x40 thermal, 0x80 power brake).
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    throttle_mask: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_clocks() -> Clocks:
    """Read the current device's state; fields the driver does not give are None."""
    handle = _handle()
    if handle is None:
        return Clocks()
    import pynvml

    def reading(call: Any, *args: Any) -> Any:
        try:
            return call(handle, *args)
        except pynvml.NVMLError:
            return None

    power_mw = reading(pynvml.nvmlDeviceGetPowerUsage)
    reasons = getattr(
        pynvml,
        "nvmlDeviceGetCurrentClocksEventReasons",
        getattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None),
    )
    return Clocks(
        sm_mhz=reading(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        power_w=None if power_mw is None else power_mw / 1e3,
        throttle_mask=None if reasons is None else reading(reasons),
    )


@cache
def _handle() -> Any | None:
    """NVML's handle of torch's current device, matched by UUID; None without NVIDIA or NVML."""
    if not torch.cuda.is_available() or torch.version.hip:
        return None
    try:
        import pynvml
    except ModuleNotFoundError:
        return None
    try:
        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    except pynvml.NVMLError:
        return None
