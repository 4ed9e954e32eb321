"""NVIDIA hosts: NVML first, `nvidia-smi` for whatever it did not give, and the raw outputs."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence

from orchestrator.agent.environment import nvidia_nvml, nvidia_smi, topology
from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    first_known,
    known,
    merged,
    unknown,
)
from orchestrator.agent.environment.findings import Findings, completed, matched
from orchestrator.agent.environment.probe import Answer, Command, Deadline
from orchestrator.agent.environment.raw import output_of
from orchestrator.agent.environment.surroundings import Surroundings, Traces
from orchestrator.agent.environment.together import ask_all

# Without persistence mode the first question wakes every GPU: seconds each on a large host.
_LIMIT_S = 25.0
_ARGUMENTS = {"query": ("-q", "-x"), "list": ("-L",), "topology": ("topo", "-m")}
_FILES = {"query": "nvidia-smi-q.xml", "list": "nvidia-smi-L.txt", "topology": "topo-m.txt"}
_DRIVER_KEYS = ("driver.version", "driver.cuda", "driver.nvml")

_UNASKED = nvidia_smi.Report()


def look(host: Surroundings, traces: Traces, deadline: Deadline) -> Findings:
    """Ask everything at once."""
    answers = ask_all(_commands(traces, tuple(_ARGUMENTS)), _LIMIT_S, deadline)
    findings = _understood(answers)
    findings.topology = topology.readings(answers.get("topology"))
    findings.driver.update(kernel_module(host))
    findings.outputs = [
        output_of(_FILES[n], answer) for n, answer in answers.items() if n in _FILES
    ]
    return findings


def glance(traces: Traces, deadline: Deadline) -> Findings:
    """Only what leases and a step's log need: NVML, and nvidia-smi where NVML gives nothing."""
    answers = ask_all(_commands(traces, ()), deadline.remaining() / 2, deadline)
    findings = _understood(answers)
    if findings.gpus or not traces.tool:
        return findings
    more = ask_all({"query": _smi_command(traces.tool, "query")}, _LIMIT_S, deadline)
    return _understood({**answers, **more})


def _commands(traces: Traces, smi: Sequence[str]) -> Dict[str, Command]:
    """NVML is worth a process only where a driver or a device is."""
    commands = {"nvml": nvidia_nvml.command()} if traces.proven else {}
    if traces.tool:
        commands.update({name: _smi_command(traces.tool, name) for name in smi})
    return commands


def _smi_command(tool: str, name: str) -> Command:
    return Command((tool, *_ARGUMENTS[name]))


def _understood(answers: Mapping[str, Answer]) -> Findings:
    findings = combine(
        nvidia_nvml.parse(answers["nvml"]) if "nvml" in answers else _nvml_unasked(),
        nvidia_smi.parse(answers["query"]) if "query" in answers else _UNASKED,
        nvidia_smi.parse_list(answers["list"]) if "list" in answers else _UNASKED,
    )
    findings.hung = any(answer.exit is None for answer in answers.values())
    return findings


def _nvml_unasked() -> nvidia_nvml.Report:
    reason = "NVML was not asked: no NVIDIA driver and no device node here"
    return nvidia_nvml.Report(failure=unknown("NVML", reason))


def combine(
    nvml: nvidia_nvml.Report, query: nvidia_smi.Report, listing: nvidia_smi.Report
) -> Findings:
    """Join the three sources, key by key; where none has a value, the reasons are kept."""
    findings = Findings("nvidia", warnings=list(dict.fromkeys(query.warnings + listing.warnings)))
    failures = [r.failure for r in (nvml, query, listing) if r.failure is not None]
    silent = unknown("nvidia-smi", "neither NVML nor nvidia-smi tells it")
    gap = first_known(*failures) if failures else silent
    driver = merged(nvml.driver, query.driver)
    findings.driver = {key: driver.get(key, gap) for key in _DRIVER_KEYS}
    for gpu in matched(matched(_nvml_gpus(nvml), query.gpus), listing.gpus):
        lost = gpu.pop("handle", None)
        gpu["mig_devices"] = _mig_devices(gpu, listing.gpus, gap)
        findings.gpus.append(completed(gpu, "nvidia", lost if lost is not None else gap))
    if not findings.gpus:
        none = unknown("NVML", "the driver answers and lists no GPU")
        findings.failure = first_known(*failures) if failures else none
    return findings


def _nvml_gpus(nvml: nvidia_nvml.Report) -> List[Readings]:
    """The GPUs NVML counted, also those it did not come to before it was stopped."""
    count = nvml.driver.get("gpu.count")
    counted = count.value if count is not None and count.known else 0
    missed = range(len(nvml.gpus), counted)
    return [dict(gpu) for gpu in nvml.gpus] + [{"index": known(index, "NVML")} for index in missed]


def _mig_devices(gpu: Readings, listed: Sequence[Readings], gap: Reading) -> Reading:
    """`-L` alone knows the names, the XML alone the memory; both list the devices in one order."""
    mine = gpu.get("mig_devices", gap)
    if not mine.known or all(device["uuid"] for device in mine.value):
        return mine
    for other in listed:
        theirs = other.get("mig_devices")
        if theirs is None or other["uuid"].value != gpu["uuid"].value:
            continue
        if len(theirs.value) == len(mine.value):
            pairs = zip(theirs.value, mine.value)  # noqa: B905  Python 3.8 has no `strict`
            devices = [{**named, "memory_total": sized["memory_total"]} for named, sized in pairs]
            return known(devices, f"{mine.source}, {theirs.source}")
    return mine


def kernel_module(host: Surroundings) -> Readings:
    """The version of the loaded kernel module: after an upgrade it is not the library's."""
    path = "/proc/driver/nvidia/version"
    text = host.read(path)
    if not text:
        gone = unknown(path, f"{path} cannot be read here")
        return {"driver.kernel_module": gone, "driver.kernel_module_kind": gone}
    first = text.splitlines()[0]
    version = next((word for word in first.split() if word[0].isdigit() and "." in word), None)
    if version is None:
        gone = error(path, f"no version in `{first[:200]}`")
        return {"driver.kernel_module": gone, "driver.kernel_module_kind": gone}
    kind = "open" if "Open Kernel Module" in first else "proprietary"
    return {
        "driver.kernel_module": known(version, path),
        "driver.kernel_module_kind": known(kind, path),
    }
