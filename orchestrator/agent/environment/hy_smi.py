"""What Hygon's `hy-smi` prints: a table, and something close to JSON.

The JSON lacks commas in the field, its keys change between DCU and HCU and between B and MiB, and
every number is text. DTK installs the same tool under the name rocm-smi.
"""

from __future__ import annotations

import json
import re
from typing import Dict, List, Mapping, Optional

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    first_known,
    known,
    lowered,
    number,
    unknown,
    words,
)

SOURCE = "hy-smi"
JSON_SOURCE = "hy-smi -a --json"

_PERCENT = {"%": 1.0}
_WATTS = {"W": 1.0}
_CELSIUS = {"C": 1.0}
_PLAIN = {"": 1.0}

# A board that works draws more than this share of its limit; 8 W of 600 W was reported at 74 % use.
_LEAST_BUSY_POWER = 0.05
_BUSY_PERCENT = 10

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CARD = re.compile(r"card(\d+)")


def parse_table(text: str) -> List[Readings]:
    """The rows of the table, by the names in its header. Raises ValueError when there is none."""
    header: List[str] = []
    gpus: List[Readings] = []
    for line in text.splitlines():
        cells = line.split()
        if cells[:1] in (["DCU"], ["HCU"]):
            header = cells
        elif header and cells and cells[0].isdigit():
            if len(cells) != len(header):
                raise ValueError(f"a row of {len(cells)} cells below {len(header)} names: `{line}`")
            gpus.append(_row_readings({name: cells[i] for i, name in enumerate(header)}))
    if not header:
        raise ValueError(f"no table of DCUs in it: {text.strip()[:200] or 'nothing'}")
    return gpus


def _row_readings(row: Mapping[str, str]) -> Readings:
    device = "HCU" if "HCU" in row else "DCU"
    use = number(row.get(f"{device}%"), SOURCE, _PERCENT)
    limit = number(row.get("PwrCap"), SOURCE, _WATTS)
    return {
        "index": known(int(row[device]), SOURCE),
        "temperature": number(row.get("Temp"), SOURCE, _CELSIUS),
        "power_draw": _plausible(number(row.get("AvgPwr"), SOURCE, _WATTS), use, limit),
        "power_limit": limit,
        "performance_state": lowered(row.get("Perf"), SOURCE),
        "utilization": use,
        "partition": lowered(row.get("Mode"), SOURCE),
    }


def _plausible(power: Reading, use: Reading, limit: Reading) -> Reading:
    if not (power.known and use.known and limit.known):
        return power
    if use.value >= _BUSY_PERCENT and power.value < _LEAST_BUSY_POWER * limit.value:
        return unknown(
            power.source,
            f"says {power.value} W of {limit.value} W at {use.value} % use: not believed",
        )
    return power


def parse_all(text: str) -> Dict[int, Dict[str, str]]:
    """`{card: {key: text}}` of `hy-smi -a --json`, with the commas it leaves out put in.

    Raises ValueError when it still is no JSON, or has no cards.
    """
    start = text.find("{")
    if start < 0:
        raise ValueError(f"no JSON in what it printed: {text.strip()[:200] or 'nothing'}")
    try:
        document = json.loads(_with_commas(text[start:]))
    except (ValueError, RecursionError) as failure:
        raise ValueError(f"damaged JSON: {failure}") from failure
    cards = {
        int(match.group(1)): {str(key): str(value) for key, value in values.items() if key}
        for name, values in document.items()
        for match in [_CARD.fullmatch(name)]
        if match is not None and isinstance(values, Mapping)
    }
    if not cards:
        raise ValueError("no card in the JSON")
    return cards


def _with_commas(text: str) -> str:
    """Two strings side by side are a value and the next key."""
    parts: List[str] = []
    end = 0
    for match in _STRING.finditer(text):
        gap = text[end : match.start()]
        parts += ["," if end and not gap.strip() else gap, match.group()]
        end = match.end()
    return "".join([*parts, text[end:]])


def card_readings(index: int, card: Mapping[str, str]) -> Readings:
    use = _plain(card, r"[DHG]CU use \(%\)", r"GPU use \(%\)")
    limit = _plain(card, r"Max Graphics Package Power \(W\)")
    power = _plain(card, r"Average Graphics Package Power \(W\)")
    return {
        "index": known(index, JSON_SOURCE),
        "name": first_known(*(words(card.get(key), JSON_SOURCE) for key in _NAMES)),
        "uuid": words(card.get("Unique ID", card.get("Serial Number")), JSON_SOURCE),
        "pci_bus_id": words(card.get("PCI Bus"), JSON_SOURCE),
        "vbios": words(card.get("VBIOS version"), JSON_SOURCE),
        "memory_total": _bytes(card, "Total Memory"),
        "memory_used": _bytes(card, "Total Used Memory"),
        "clock_sm": _clock(card, "sclk"),
        "clock_mem": _clock(card, "mclk"),
        "power_draw": _plausible(power, use, limit),
        "power_limit": limit,
        "temperature": _plain(
            card, r"Temperature \(Sensor junction\) \(C\)", r"Temperature \(Sensor edge\) \(C\)"
        ),
        "temperature_memory": _plain(card, r"Temperature \(Sensor mem(ory)?\) \(C\)"),
        "utilization": use,
    }


_NAMES = ("Card Series", "Card series", "Card Model", "Card model")


def _found(card: Mapping[str, str], *patterns: str) -> Optional[str]:
    for pattern in patterns:
        for key, value in card.items():
            if re.fullmatch(pattern, key, re.IGNORECASE):
                return value
    return None


def _plain(card: Mapping[str, str], *patterns: str) -> Reading:
    return number(_found(card, *patterns), JSON_SOURCE, _PLAIN)


def _bytes(card: Mapping[str, str], name: str) -> Reading:
    for unit, scale in (("B", 1.0), ("MiB", float(1 << 20))):
        text = _found(card, rf"vram {name} \({unit}\)")
        if text is not None:
            return number(text, JSON_SOURCE, {"": scale})
    return number(None, JSON_SOURCE, _PLAIN)


def _clock(card: Mapping[str, str], name: str) -> Reading:
    text = _found(card, rf"{name} clock speed:?")
    return number(text.strip("()") if text else text, JSON_SOURCE, {"Mhz": 1.0, "MHz": 1.0})


def driver_version(text: str) -> Reading:
    match = re.search(r"Driver Version:?\s*:?\s*(\S+)", text, re.IGNORECASE)
    if match is None:
        return unknown("hy-smi --showdriverversion", "the tool printed no driver version")
    return words(match.group(1), "hy-smi --showdriverversion")
