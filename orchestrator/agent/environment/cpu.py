"""The CPUs and NUMA nodes, from `lscpu -J` where it answers and from the kernel's own files."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    known,
    unknown,
    whole,
)
from orchestrator.agent.environment.host import file_reading
from orchestrator.agent.environment.probe import Answer
from orchestrator.agent.environment.surroundings import Surroundings
from orchestrator.agent.environment.tool_json import parse_json

LSCPU = "lscpu -J"
_CPUINFO = "/proc/cpuinfo"
_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"

# The extensions that change what a compiled CPU kernel can do.
_FEATURES = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimddp",
    "sve",
    "sve2",
    "bf16",
    "i8mm",
    "sme",
)


def readings(host: Surroundings, lscpu: Optional[Answer]) -> Readings:
    """`lscpu` is the answer of `lscpu -J`, None where the tool is not installed."""
    said, reason = _parse_answer(lscpu)
    info = _cpuinfo(host.read(_CPUINFO))
    flags = (said.get("Flags") or info.get("flags") or info.get("Features") or "").split()
    return {
        "cpu.model": _first_text(
            (LSCPU, said.get("Model name")), (_CPUINFO, info.get("model name")), reason=reason
        ),
        "cpu.sockets": _integer(said.get("Socket(s)"), reason),
        "cpu.cores": _cores(said, reason),
        "cpu.threads": _threads(host),
        "cpu.usable": _usable(),
        "cpu.features": _features(flags),
        "cpu.microcode": _first_text((_CPUINFO, info.get("microcode")), reason="not told here"),
        "cpu.frequency": _frequency(host, info),
        "cpu.frequency_max": _frequency_max(host, said),
        "cpu.governor": _governor(host),
        "cpu.boost": _boost(host),
        "cpu.smt": file_reading(host, f"{_CPUS}/smt/control"),
        "cpu.throttle_count": _throttle_count(host),
        **_numa(host),
    }


def parse_lscpu(text: str) -> Dict[str, str]:
    """`{field: data}` of `lscpu -J`, nested fields of newer versions included.

    Raises ValueError when it is not the JSON of lscpu.
    """
    document = parse_json(text)
    if not isinstance(document, dict) or not isinstance(document.get("lscpu"), list):
        raise ValueError("not the JSON of lscpu: no list `lscpu` in it")
    return dict(_lscpu_fields(document["lscpu"]))


def _lscpu_fields(entries: List[Mapping[str, Any]]) -> Iterator[Tuple[str, str]]:
    for entry in entries:
        if entry.get("data") is not None:
            yield str(entry.get("field", "")).rstrip(":"), str(entry["data"])
        yield from _lscpu_fields(entry.get("children", []))


def _parse_answer(answer: Optional[Answer]) -> Tuple[Dict[str, str], str]:
    if answer is None:
        return {}, "lscpu is not installed"
    if answer.problem:
        return {}, f"lscpu {answer.problem}"
    try:
        return parse_lscpu(answer.text), "lscpu does not mention it"
    except ValueError as failure:
        return {}, f"lscpu did not print its JSON: {failure}"


def _cpuinfo(text: Optional[str]) -> Dict[str, str]:
    """The first processor of /proc/cpuinfo."""
    first = (text or "").split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _first_text(*sources: Tuple[str, Optional[str]], reason: str) -> Reading:
    for source, text in sources:
        if text and text != "-":
            return known(text, source)
    return unknown(sources[0][0], reason)


def _integer(text: Optional[str], reason: str) -> Reading:
    if text is not None and text.isdigit():
        return known(int(text), LSCPU)
    return unknown(LSCPU, reason)


def _cores(said: Mapping[str, str], reason: str) -> Reading:
    sockets = _integer(said.get("Socket(s)"), reason)
    per_socket = _integer(said.get("Core(s) per socket"), reason)
    if sockets.known and per_socket.known:
        return known(sockets.value * per_socket.value, LSCPU)
    return per_socket if sockets.known else sockets


def _threads(host: Surroundings) -> Reading:
    online = host.read(f"{_CPUS}/online")
    if online:
        return known(len(expanded(online)), f"{_CPUS}/online")
    count = os.cpu_count()
    return known(count, "sysconf") if count else unknown("sysconf", "the system does not tell")


def _usable() -> Reading:
    if not hasattr(os, "sched_getaffinity"):
        return unknown("sched_getaffinity", "this system has no CPU affinity")
    return known(len(os.sched_getaffinity(0)), "sched_getaffinity")


def _features(flags: List[str]) -> Reading:
    if not flags:
        return unknown(_CPUINFO, "the CPU flags are not told here")
    return known([name for name in _FEATURES if name in flags], _CPUINFO)


def _frequency(host: Surroundings, info: Mapping[str, str]) -> Reading:
    """The mean over all CPUs; the frequency a virtual machine shows is the host's promise only."""
    source = f"{_CPUS}/cpu*/cpufreq/scaling_cur_freq"
    now_khz = _numbers(host, source)
    if now_khz:
        return known(round(sum(now_khz) / len(now_khz) / 1000, 1), source)
    text = host.read(_CPUINFO) or ""
    now_mhz = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    if now_mhz:
        return known(round(sum(now_mhz) / len(now_mhz), 1), _CPUINFO)
    return unknown(source, "the kernel does not tell CPU frequencies here")


def _frequency_max(host: Surroundings, said: Mapping[str, str]) -> Reading:
    source = f"{_CPUS}/cpu*/cpufreq/cpuinfo_max_freq"
    highest_khz = _numbers(host, source)
    if highest_khz:
        return known(whole(max(highest_khz) / 1000), source)
    try:
        return known(whole(float(said["CPU max MHz"])), LSCPU)
    except (KeyError, ValueError):
        return unknown(source, "neither the kernel nor lscpu tells the highest frequency here")


def _governor(host: Surroundings) -> Reading:
    source = f"{_CPUS}/cpu*/cpufreq/scaling_governor"
    found = sorted({_text_of(path) for path in host.matches(source)} - {""})
    if not found:
        return unknown(source, "no CPU frequency driver here")
    return known(", ".join(found), source)


def _boost(host: Surroundings) -> Reading:
    # The two drivers say it the opposite way round.
    for path, enabled in ((f"{_CPUS}/intel_pstate/no_turbo", "0"), (f"{_CPUS}/cpufreq/boost", "1")):
        text = host.read(path)
        if text:
            return known("enabled" if text == enabled else "disabled", path)
    return unknown(f"{_CPUS}/cpufreq/boost", "no CPU frequency driver here")


def _throttle_count(host: Surroundings) -> Reading:
    source = f"{_CPUS}/cpu*/thermal_throttle/core_throttle_count"
    counts = _numbers(host, source)
    if not counts:
        return unknown(source, "the kernel keeps no thermal throttle counters here")
    return known(int(sum(counts)), source)


def _numa(host: Surroundings) -> Readings:
    folders = host.matches(f"{_NODES}/node[0-9]*")
    if not folders:
        gone = unknown(_NODES, "the kernel tells no NUMA nodes here")
        return {"numa.nodes": gone, "numa.cpus": gone, "numa.memory": gone, **_balancing(host)}
    names = {folder: os.path.basename(folder)[len("node") :] for folder in folders}
    return {
        "numa.nodes": known(len(folders), _NODES),
        "numa.cpus": known(
            {name: _text_of(f"{folder}/cpulist") for folder, name in names.items()}, _NODES
        ),
        "numa.memory": _node_memory(names),
        **_balancing(host),
    }


def _balancing(host: Surroundings) -> Readings:
    return {"numa.balancing": file_reading(host, "/proc/sys/kernel/numa_balancing")}


def _node_memory(names: Mapping[str, str]) -> Reading:
    sizes = {}
    for folder, name in names.items():
        match = re.search(r"MemTotal:\s+(\d+) kB", _text_of(f"{folder}/meminfo"))
        if match is None:
            return unknown(_NODES, f"{folder}/meminfo does not tell MemTotal")
        sizes[name] = int(match.group(1)) * 1024
    return known(sizes, _NODES)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _numbers(host: Surroundings, pattern: str) -> List[float]:
    texts = (_text_of(path) for path in host.matches(pattern))
    return [float(text) for text in texts if text.isdigit()]


def expanded(ranges: str) -> List[int]:
    """The numbers of a kernel list such as `0-3,8`. Raises ValueError when it is none."""
    numbers: List[int] = []
    for part in filter(None, ranges.strip().split(",")):
        low, _, high = part.partition("-")
        numbers.extend(range(int(low), int(high or low) + 1))
    return numbers


def condensed(numbers: List[int]) -> str:
    """A kernel list such as `0-3,8` of these numbers."""
    parts: List[List[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
