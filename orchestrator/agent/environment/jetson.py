"""NVIDIA Jetson boards by `tegrastats`: nvidia-smi there answers `N/A` to everything.

The GPU shares the memory of the CPU. A sensor that is off reads -256 C; others read far below zero
when they are broken.
"""

from __future__ import annotations

import re
from typing import Optional, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    known,
    not_applicable,
    unknown,
)
from orchestrator.agent.environment.findings import Findings, completed
from orchestrator.agent.environment.probe import Command, Deadline
from orchestrator.agent.environment.raw import output_of
from orchestrator.agent.environment.surroundings import JETSON_TOOL_PLACES, Surroundings
from orchestrator.agent.environment.together import ask_all
from orchestrator.agent.environment.topology import KEYS as TOPOLOGY_KEYS

SOURCE = "tegrastats"

_MODEL = "/proc/device-tree/model"
_RELEASE = "/etc/nv_tegra_release"
_UNTOLD = unknown(SOURCE, "tegrastats does not tell it")
_LIMIT_S = 5.0
# Below the coldest place a board may work in, a reading is no temperature.
_COLDEST_CELSIUS = -40.0

_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_GPU_USE = re.compile(r"\bGR3D_FREQ (\d+)%(?:@\[?(\d+))?")
_GPU_TEMPERATURE = re.compile(r"\b(?:GPU|gpu)@(-?[\d.]+)C")
_GPU_POWER = re.compile(r"\b(?:VDD_GPU_SOC|VDD_GPU|POM_5V_GPU|GPU) (\d+)(?:mW)?/(\d+)(?:mW)?")


def parse_line(line: str) -> Readings:
    """One line of tegrastats. Raises ValueError when it is none."""
    if _RAM.search(line) is None:
        raise ValueError(f"no line of tegrastats: {line.strip()[:200] or 'nothing'}")
    return {
        "index": known(0, SOURCE),
        "memory_used": _number(_RAM, 1, line, float(1 << 20)),
        "memory_total": _number(_RAM, 2, line, float(1 << 20)),
        "utilization": _number(_GPU_USE, 1, line),
        "clock_sm": _number(_GPU_USE, 2, line),
        "temperature": _temperature(line),
        "power_draw": _number(_GPU_POWER, 1, line, 0.001),
        "power_draw_average": _number(_GPU_POWER, 2, line, 0.001),
    }


def _number(pattern: re.Pattern[str], group: int, line: str, scale: float = 1.0) -> Reading:
    match = pattern.search(line)
    if match is None or match.group(group) is None:
        return unknown(SOURCE, "this board does not tell it")
    value = float(match.group(group)) * scale
    return known(int(value) if value == int(value) else round(value, 3), SOURCE)


def _temperature(line: str) -> Reading:
    reading = _number(_GPU_TEMPERATURE, 1, line)
    if reading.known and reading.value < _COLDEST_CELSIUS:
        return unknown(SOURCE, f"says {reading.value} C: the sensor is off or broken")
    return reading


def look(host: Surroundings, deadline: Deadline) -> Findings:
    """The board has one GPU, whether or not the tool answers."""
    findings = Findings("jetson")
    gpu, gap = _stats(host, findings, deadline)
    model = (host.read(_MODEL) or "").rstrip("\0")
    if model:
        gpu["name"] = known(model, _MODEL)
        gpu.setdefault("index", known(0, _MODEL))
    findings.gpus = [completed(gpu, "jetson", gap)] if gpu else []
    findings.failure = None if gpu else gap
    findings.driver["driver.version"] = _release(host.read(_RELEASE))
    single = not_applicable(SOURCE, "the GPU is part of the board")
    findings.topology = dict.fromkeys(TOPOLOGY_KEYS, single)
    return findings


def _stats(host: Surroundings, findings: Findings, deadline: Deadline) -> Tuple[Readings, Reading]:
    """(what tegrastats told, the reason for what it did not tell)."""
    tool = host.tool("tegrastats", JETSON_TOOL_PLACES)
    if tool is None:
        return {}, unknown("PATH", "tegrastats is not installed")
    # It prints a line every interval for ever.
    command = Command((tool, "--interval", "100"), enough=lambda output: b"\n" in output)
    answer = ask_all({"stats": command}, _LIMIT_S, deadline)["stats"]
    findings.outputs = [output_of("tegrastats.txt", answer)]
    findings.hung = bool(answer.problem)
    if answer.problem:
        return {}, error(SOURCE, f"tegrastats {answer.problem}")
    try:
        return parse_line(answer.text.partition("\n")[0]), _UNTOLD
    except ValueError as failure:
        return {}, error(SOURCE, str(failure))


def _release(text: Optional[str]) -> Reading:
    match = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", text or "")
    if match is None:
        return unknown(_RELEASE, f"{_RELEASE} cannot be read here")
    return known(f"L4T {match.group(1)}.{match.group(2)}", _RELEASE)
