"""The GPUs of this host, of whatever vendor, under the snapshot's keys."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Callable, Collection, Dict, List

from orchestrator.agent.environment import amd, hygon, jetson, nvidia
from orchestrator.agent.environment.catalogue import gpu_key
from orchestrator.agent.environment.field import (
    NOT_APPLICABLE,
    Reading,
    Readings,
    error,
    known,
    not_applicable,
    unknown,
)
from orchestrator.agent.environment.findings import Findings
from orchestrator.agent.environment.probe import Deadline, Job, ProbeError, together
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
from orchestrator.agent.environment.topology import KEYS as TOPOLOGY_KEYS

SOURCE = "driver, device nodes and tools"
DRIVER_KEYS = (
    "driver.version",
    "driver.cuda",
    "driver.kernel_module",
    "driver.kernel_module_kind",
    "driver.nvml",
)
KEYS = ("gpu.count", "gpu.warnings", *DRIVER_KEYS, *TOPOLOGY_KEYS)

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
    if "jetson" in traces and not traces.get("nvidia", traces["jetson"]).driver.startswith("/proc"):
        traces.pop("nvidia", None)
    return traces


def gather(host: Surroundings, deadline: Deadline, *, glance: bool = False) -> Gathered:
    """Ask the tools of every vendor that left a trace. `glance`: only for leases and logs."""
    gathered = Gathered(traces_of(host))
    lookers: Dict[str, Callable[[Traces, Deadline], Findings]] = {
        "nvidia": lambda traces, limit: (
            nvidia.glance(traces, limit) if glance else nvidia.look(host, traces, limit)
        ),
        "amd": lambda traces, limit: amd.look(host, limit, glance=glance),
        "hygon": lambda traces, limit: _look_at_hygon(traces, limit, glance),
        "jetson": lambda traces, limit: jetson.look(host, limit),
    }
    jobs = [_job(lookers[vendor], traces) for vendor, traces in gathered.traces.items()]
    for vendor, outcome in together(jobs, deadline).items():
        if isinstance(outcome, ProbeError):
            outcome = Findings(vendor, failure=error(vendor, str(outcome)), hung=True)
        gathered.findings[vendor] = outcome
    return gathered


def _job(look: Callable[[Traces, Deadline], Findings], traces: Traces) -> Job[Findings]:
    return Job(traces.vendor, _LIMIT_S, lambda deadline: look(traces, deadline))


def _look_at_hygon(traces: Traces, deadline: Deadline, glance: bool) -> Findings:
    if not traces.tool:
        return Findings("hygon", failure=unknown("PATH", "hy-smi is not installed"))
    return hygon.look(traces.tool, deadline, glance=glance)


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


def readings(gathered: Gathered, own_pids: Collection[int]) -> Readings:
    """Every GPU key of the snapshot."""
    number = count(gathered)
    result: Readings = {"gpu.count": number, **_host_wide(gathered, number)}
    for index, gpu in enumerate(gathered.gpus):
        gpu["foreign_processes"] = foreign(gpu["processes"], gpu["memory_used"], own_pids)
        result.update({gpu_key(index, key): reading for key, reading in gpu.items()})
    return result


def _host_wide(gathered: Gathered, number: Reading) -> Readings:
    """Driver, topology and warnings: of the first vendor that has GPUs here."""
    if number.known and number.value == 0:
        gone = not_applicable(SOURCE, "no GPU here")
        return dict.fromkeys(KEYS[1:], gone)
    with_gpus = [found for found in gathered.findings.values() if found.gpus]
    first = (with_gpus or list(gathered.findings.values()) or [Findings("")])[0]
    gap = first.failure or Reading(
        NOT_APPLICABLE if first.gpus else number.state, None, SOURCE, _gap_detail(first, number)
    )
    warnings = [line for found in gathered.findings.values() for line in found.warnings]
    return {
        "gpu.warnings": known(warnings, SOURCE) if with_gpus or warnings else gap,
        **{key: first.driver.get(key, gap) for key in DRIVER_KEYS},
        **{key: first.topology.get(key, gap) for key in TOPOLOGY_KEYS},
    }


def _gap_detail(found: Findings, number: Reading) -> str:
    return f"{found.vendor} has no such thing" if found.gpus else number.detail
