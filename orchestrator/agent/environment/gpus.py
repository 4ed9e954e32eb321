"""The GPUs of this host, of whatever vendor, under the snapshot's keys."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Callable, Collection, Dict, List, Mapping

from orchestrator.agent.environment.catalogue import DRIVER_KEYS, gpu_key
from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    first_known,
    known,
    not_applicable,
    unknown,
)
from orchestrator.agent.environment.findings import Findings
from orchestrator.agent.environment.probe import Deadline
from orchestrator.agent.environment.processes import foreign
from orchestrator.agent.environment.raw import Output
from orchestrator.agent.environment.surroundings import (
    Surroundings,
    Traces,
    amd_traces,
    hygon_traces,
    jetson_traces,
    nvidia_traces,
)
from orchestrator.agent.environment.together import Job, ProbeError, together

SOURCE = "driver, device nodes and tools"
KEYS = tuple(key for key in DRIVER_KEYS if not key.startswith("kernel_log."))

_LIMIT_S = 30.0


@dataclass
class Gathered:
    """`traces` and `findings` of each vendor that left a trace here; no entry for the others."""

    traces: Dict[str, Traces] = field(default_factory=dict)
    findings: Dict[str, Findings] = field(default_factory=dict)

    @property
    def gpus(self) -> List[Readings]:
        return [gpu for found in self.findings.values() for gpu in found.gpus]

    @property
    def outputs(self) -> List[Output]:
        return [output for found in self.findings.values() for output in found.outputs]


def traces_of(host: Surroundings) -> Dict[str, Traces]:
    """The vendors that left any trace here."""
    found = [nvidia_traces(host), amd_traces(host), hygon_traces(host), jetson_traces(host)]
    traces = {trace.vendor: trace for trace in found if trace.any}
    # Hygon's devices appear under AMD's device nodes, Jetson's GPU under NVIDIA's tool.
    if "hygon" in traces:
        traces.pop("amd", None)
    nvidia = traces.get("nvidia")
    if "jetson" in traces and nvidia is not None and not nvidia.driver.startswith("/proc"):
        del traces["nvidia"]
    return traces


def gather(host: Surroundings, deadline: Deadline, *, glance: bool = False) -> Gathered:
    """Ask the tools of every vendor that left a trace. `glance`: only for leases and logs."""
    gathered = Gathered(traces_of(host))
    jobs = [_job(traces, host, glance) for traces in gathered.traces.values()]
    for vendor, outcome in together(jobs, deadline).items():
        if isinstance(outcome, ProbeError):
            outcome = Findings(vendor, failure=error(vendor, str(outcome)), hung=True)
        gathered.findings[vendor] = outcome
    return gathered


def _job(traces: Traces, host: Surroundings, glance: bool) -> Job[Findings]:
    look = _LOOKERS[traces.vendor]
    return Job(traces.vendor, _LIMIT_S, lambda deadline: look(host, traces, deadline, glance))


# A vendor's modules are loaded where it left a trace: most hosts need one set of them or none.


def _nvidia(host: Surroundings, traces: Traces, deadline: Deadline, glance: bool) -> Findings:
    from orchestrator.agent.environment import nvidia

    return nvidia.glance(traces, deadline) if glance else nvidia.look(host, traces, deadline)


def _amd(host: Surroundings, traces: Traces, deadline: Deadline, glance: bool) -> Findings:
    from orchestrator.agent.environment import amd

    return amd.look(host, deadline, glance=glance)


def _hygon(host: Surroundings, traces: Traces, deadline: Deadline, glance: bool) -> Findings:
    if not traces.tool:
        return Findings("hygon", failure=unknown("PATH", "hy-smi is not installed"))
    from orchestrator.agent.environment import hygon

    return hygon.look(traces.tool, deadline, glance=glance)


def _jetson(host: Surroundings, traces: Traces, deadline: Deadline, glance: bool) -> Findings:
    from orchestrator.agent.environment import jetson

    return jetson.look(host, deadline)


_LOOKERS: Mapping[str, Callable[[Surroundings, Traces, Deadline, bool], Findings]] = {
    "nvidia": _nvidia,
    "amd": _amd,
    "hygon": _hygon,
    "jetson": _jetson,
}


def count(gathered: Gathered) -> Reading:
    """The number of GPUs. 0 is a value only when no driver and no device node was found."""
    failures = [found for found in gathered.findings.values() if found.failure is not None]
    reasons = "; ".join(
        f"{found.vendor} ({gathered.traces[found.vendor]}): {found.failure.detail}"
        for found in failures
        if found.failure is not None
    )
    if gathered.gpus:
        return known(len(gathered.gpus), SOURCE, reasons)
    if platform.system() != "Linux":
        return unknown(SOURCE, f"on {platform.system()} no GPU is looked for")
    if any(found.hung for found in failures):
        return error(SOURCE, reasons)
    if any(traces.proven for traces in gathered.traces.values()):
        return unknown(SOURCE, f"a GPU or its driver is here, and no tool tells of it: {reasons}")
    return known(0, SOURCE, reasons or "no GPU driver, no device node, no vendor's tool")


def readings(host: Surroundings, gathered: Gathered, own_pids: Collection[int]) -> Readings:
    """Every GPU key of the snapshot."""
    number = count(gathered)
    result = {**_host_wide(gathered, number), "gpu.count": number}
    for index, gpu in enumerate(gathered.gpus):
        gpu["foreign_processes"] = foreign(gpu["processes"], gpu["memory_used"], own_pids)
        gpu["numa_node"] = first_known(gpu["numa_node"], _numa_node(host, gpu["pci_bus_id"]))
        result.update({gpu_key(index, key): reading for key, reading in gpu.items()})
    return result


def _host_wide(gathered: Gathered, number: Reading) -> Readings:
    """Driver, topology and warnings: of the first vendor that has GPUs here."""
    if number.known and number.value == 0:
        return dict.fromkeys(KEYS, not_applicable(SOURCE, "no GPU here"))
    with_gpus = [found for found in gathered.findings.values() if found.gpus]
    first = (with_gpus or list(gathered.findings.values()) or [Findings("")])[0]
    if first.gpus:
        gap = not_applicable(first.vendor, f"{first.vendor} has no such thing")
    else:
        gap = first.failure or number
    warnings = [line for found in gathered.findings.values() for line in found.warnings]
    told = {**first.driver, **first.topology}
    if with_gpus or warnings:
        told["gpu.warnings"] = known(warnings, SOURCE)
    return {key: told.get(key, gap) for key in KEYS}


def _numa_node(host: Surroundings, bus_id: Reading) -> Reading:
    """The NUMA node the kernel gives the device; -1 is how it says that it does not know."""
    if not bus_id.known:
        return unknown("sysfs", "the PCI bus id is not known")
    domain, _, rest = bus_id.value.lower().partition(":")
    path = f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node"
    text = host.read(path)
    if text is None or text.startswith("-"):
        return unknown(path, "the kernel does not tell the NUMA node of this device")
    return known(int(text), path)
