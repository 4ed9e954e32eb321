"""The names NVIDIA's tools share: throttle reasons, their time counters, compute modes.

Drivers until 530 say "throttle reasons", later ones "event reasons"; the bits are the same.
"""

from __future__ import annotations

from typing import List, Mapping

# Bit of the mask (nvml.h, nvmlClocksEventReasons) -> name.
THROTTLE_REASONS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}

# Name after `throttle_` -> number of the NVML field; both count nanoseconds.
THROTTLE_COUNTERS: Mapping[str, int] = {
    "sw_power_cap": 74,
    "sync_boost": 76,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "hw_power_brake": 271,
}

COMPUTE_MODES: Mapping[int, str] = {
    0: "default",
    1: "exclusive_thread",
    2: "prohibited",
    3: "exclusive_process",
}


def reason_names(mask: int) -> List[str]:
    """The names of the bits set, lowest first; a bit without a name is told as its number."""
    names = [name for bit, name in THROTTLE_REASONS.items() if mask & bit]
    rest = mask & ~sum(THROTTLE_REASONS)
    return [*names, f"{rest:#x}"] if rest else names
