"""Memory, load and pressure: what else the host is busy with."""

from __future__ import annotations

import os
import re
from typing import Dict, Optional, Tuple

from orchestrator.agent.environment.field import Reading, Readings, known, unknown
from orchestrator.agent.environment.surroundings import Surroundings

_MEMINFO = "/proc/meminfo"
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_LOADAVG = "/proc/loadavg"


def readings(host: Surroundings) -> Readings:
    sizes = _meminfo(host.read(_MEMINFO))
    return {
        "memory.total": _total(sizes),
        "memory.available": _size(sizes, "MemAvailable"),
        "memory.swap_total": _size(sizes, "SwapTotal"),
        "memory.swap_used": _swap_used(sizes),
        "memory.huge_pages": _huge_pages(host),
        **_load(host),
        **{f"pressure.{kind}": _pressure(host, kind) for kind in ("cpu", "memory", "io")},
    }


def _meminfo(text: Optional[str]) -> Dict[str, int]:
    """`{name: bytes}` of /proc/meminfo."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", text or "", re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in lines}


def _size(sizes: Dict[str, int], name: str) -> Reading:
    if name not in sizes:
        return unknown(_MEMINFO, f"{_MEMINFO} does not tell {name}")
    return known(sizes[name], _MEMINFO)


def _total(sizes: Dict[str, int]) -> Reading:
    if "MemTotal" in sizes:
        return known(sizes["MemTotal"], _MEMINFO)
    try:
        return known(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "sysconf")
    except (ValueError, OSError):
        return unknown("sysconf", "the system does not tell its memory")


def _swap_used(sizes: Dict[str, int]) -> Reading:
    total, free = _size(sizes, "SwapTotal"), _size(sizes, "SwapFree")
    if not total.known:
        return total
    return known(total.value - free.value, _MEMINFO) if free.known else free


def _huge_pages(host: Surroundings) -> Reading:
    match = re.search(r"\[(\w+)\]", host.read(_HUGE_PAGES) or "")
    if match is None:
        return unknown(_HUGE_PAGES, f"{_HUGE_PAGES} cannot be read here")
    return known(match.group(1), _HUGE_PAGES)


def _load(host: Surroundings) -> Readings:
    match = re.match(r"([\d.]+) ([\d.]+) ([\d.]+) (\d+)/", host.read(_LOADAVG) or "")
    if match is not None:
        one, five, fifteen = (known(float(match.group(i)), _LOADAVG) for i in (1, 2, 3))
        running = known(int(match.group(4)), _LOADAVG)
    else:
        one, five, fifteen = _load_by_call()
        running = unknown(_LOADAVG, f"{_LOADAVG} cannot be read here")
    return {"load.1min": one, "load.5min": five, "load.15min": fifteen, "load.running": running}


def _load_by_call() -> Tuple[Reading, Reading, Reading]:
    try:
        one, five, fifteen = os.getloadavg()
    except OSError:
        gone = unknown("getloadavg", "the system does not tell its load")
        return gone, gone, gone
    return known(one, "getloadavg"), known(five, "getloadavg"), known(fifteen, "getloadavg")


def _pressure(host: Surroundings, kind: str) -> Reading:
    path = f"/proc/pressure/{kind}"
    match = re.search(r"^some avg10=([\d.]+)", host.read(path) or "", re.MULTILINE)
    if match is None:
        return unknown(path, "the kernel keeps no pressure information here")
    return known(float(match.group(1)), path)
