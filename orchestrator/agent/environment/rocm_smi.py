"""AMD GPUs by the older `rocm-smi --json`, one flag a call: with two it prints only the last.

Keys differ between releases (`Card series`, `Card Series`, `Device Name`) and every number is text.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Sequence, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    first_known,
    known,
    lowered,
    missing,
    number,
    unknown,
    words,
)
from orchestrator.agent.environment.topology import Links

SOURCE = "rocm-smi"
FLAGS: Sequence[Sequence[str]] = (
    ("--showproductname",),
    ("--showuniqueid",),
    ("--showbus",),
    ("--showvbios",),
    ("--showdriverversion",),
    ("--showmeminfo", "vram"),
    ("--showclocks",),
    ("--showpower",),
    ("--showmaxpower",),
    ("--showtemp",),
    ("--showuse",),
    ("--showmemuse",),
    ("--showperflevel",),
    ("--showreplaycount",),
    ("--showtoponuma",),
    ("--showtopotype",),
)

_CARD = re.compile(r"card(\d+)")
_PLAIN = {"": 1.0}
_RATE = re.compile(r"\(?([\d.]+)\s*M[Hh]z\)?")
_LANES = re.compile(r"\(?([\d.]+)GT/s,? x(\d+)")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_LINK = re.compile(r"\(Topology\) Link type between DRM devices (\d+) and (\d+)")
# What the tool prints where the kernel gave it -1 in an unsigned number.
_NO_NODE = 4294967295

Cards = Dict[int, Dict[str, str]]


def cards(documents: Sequence[Any]) -> Cards:
    """The answers of all calls joined: `{card number: {key: text}}`."""
    found: Cards = {}
    for document in documents:
        for name, values in document.items():
            match = _CARD.fullmatch(name)
            if match and isinstance(values, Mapping):
                texts = {str(key): str(value) for key, value in values.items()}
                found.setdefault(int(match.group(1)), {}).update(texts)
    return found


def system(documents: Sequence[Any]) -> Dict[str, str]:
    """The part that is not about one card: driver version, processes, links."""
    found: Dict[str, str] = {}
    for document in documents:
        values = document.get("system")
        if isinstance(values, Mapping):
            found.update({str(key): str(value) for key, value in values.items()})
    return found


def gpu_readings(index: int, card: Mapping[str, str]) -> Readings:
    generation, width = _pcie(card)
    return {
        "index": known(index, SOURCE),
        "name": _name(card),
        "uuid": _unique_id(card),
        "pci_bus_id": words(card.get("PCI Bus"), SOURCE),
        "architecture": words(card.get("GFX Version"), SOURCE),
        "vbios": words(card.get("VBIOS version"), SOURCE),
        "memory_total": _plain(card, "VRAM Total Memory (B)"),
        "memory_used": _plain(card, "VRAM Total Used Memory (B)"),
        "clock_sm": _clock(card, "sclk"),
        "clock_mem": _clock(card, "mclk"),
        "power_draw": _plain(card, "Current Socket Graphics Package Power (W)"),
        "power_draw_average": _plain(card, "Average Graphics Package Power (W)"),
        "power_limit": _plain(card, "Max Graphics Package Power (W)"),
        "temperature": _plain(
            card, "Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"
        ),
        "temperature_memory": _plain(
            card, "Temperature (Sensor memory) (C)", "Temperature (Sensor mem) (C)"
        ),
        "performance_state": lowered(card.get("Performance Level"), SOURCE),
        "pcie_generation": generation,
        "pcie_width": width,
        "pcie_replays": _plain(card, "PCIe Replay Count"),
        "utilization": _plain(card, "GPU use (%)"),
        "utilization_memory": _plain(
            card, "GPU Memory Read/Write Activity (%)", "GPU memory use (%)"
        ),
        "numa_node": _numa_node(card),
        "processes": unknown(SOURCE, "rocm-smi does not tell which GPU a process uses"),
    }


def _plain(card: Mapping[str, str], *keys: str) -> Reading:
    return first_known(*(number(card.get(key), SOURCE, _PLAIN) for key in keys))


def _name(card: Mapping[str, str]) -> Reading:
    """The first name that is one: some releases put a PCI id in its place."""
    keys = ("Card Series", "Card series", "Device Name", "Card Model", "Card model")
    names = [card[key] for key in keys if key in card and not card[key].startswith("0x")]
    return words(names[0] if names else None, SOURCE)


def _unique_id(card: Mapping[str, str]) -> Reading:
    reading = words(card.get("Unique ID"), SOURCE)
    if reading.known and re.fullmatch(r"0x0+", reading.value):
        return unknown(SOURCE, f"the card has no unique id (`{reading.value}`)")
    return reading


def _clock(card: Mapping[str, str], name: str) -> Reading:
    text = card.get(f"{name} clock speed:", card.get(f"{name} clock speed"))
    gone = words(text, SOURCE)
    if not gone.known:
        return gone
    match = _RATE.search(gone.value)
    if match is None:
        return error(SOURCE, f"{name} is `{gone.value}`; expected a rate in MHz")
    return number(match.group(1), SOURCE, _PLAIN)


def _pcie(card: Mapping[str, str]) -> Tuple[Reading, Reading]:
    text = words(
        card.get("pcie clock speed", card.get("pcie clock speed:", card.get("pcie clock level"))),
        SOURCE,
    )
    if not text.known:
        return text, text
    match = _LANES.search(text.value)
    if match is None:
        gone = unknown(SOURCE, f"the PCIe link is `{text.value}`: neither rate nor width is in it")
        return gone, gone
    rate, width = float(match.group(1)), known(int(match.group(2)), SOURCE)
    if rate not in _GENERATIONS:
        return unknown(SOURCE, f"{rate} GT/s is the rate of no PCIe generation"), width
    return known(_GENERATIONS[rate], SOURCE), width


def _numa_node(card: Mapping[str, str]) -> Reading:
    node = _plain(card, "(Topology) Numa Node")
    if node.known and (node.value < 0 or node.value == _NO_NODE):
        return unknown(SOURCE, "the firmware does not tell the NUMA node")
    return node


def driver_version(values: Mapping[str, str]) -> Reading:
    return words(values.get("Driver version"), SOURCE)


def links(values: Mapping[str, str]) -> Links:
    """The link types between cards, both ways; empty when the tool told none."""
    found: Links = {}
    for key, kind in values.items():
        match = _LINK.fullmatch(key)
        if match is None or missing(kind, SOURCE) is not None:
            continue
        first, second = f"GPU{match.group(1)}", f"GPU{match.group(2)}"
        found.setdefault(first, {first: "X"})[second] = kind
        found.setdefault(second, {second: "X"})[first] = kind
    return found


def parse_numa_text(text: str) -> Dict[int, Reading]:
    """`{card: NUMA node}` of what `rocm-smi --showtoponuma` prints as text."""
    lines = re.findall(r"^GPU\[(\d+)\]\s*: \(Topology\) Numa Node: (\S+)", text, re.MULTILINE)
    return {int(card): number(node, "rocm-smi --showtoponuma", _PLAIN) for card, node in lines}
