"""One snapshot of the host: every field with its state, and the raw outputs beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from orchestrator.agent.environment import (
    cpu,
    disk,
    gpus,
    host,
    kernel_log,
    limits,
    memory,
    raw,
    software,
    variables,
)
from orchestrator.agent.environment.catalogue import FIXED_KEYS, spec_of
from orchestrator.agent.environment.field import Readings, error, unknown
from orchestrator.agent.environment.probe import Command, Deadline, ask
from orchestrator.agent.environment.raw import Output, output_of
from orchestrator.agent.environment.surroundings import Surroundings
from orchestrator.agent.environment.together import Job, ProbeError, together

SCHEMA = 1
PHASES = ("before", "after")

_FILES_LIMIT_S = 5.0
_TOOL_LIMIT_S = 10.0
_GPU_LIMIT_S = 30.0


@dataclass
class Found:
    """What one probe found: readings under full keys, and raw outputs."""

    readings: Readings = field(default_factory=dict)
    outputs: List[Output] = field(default_factory=list)


@dataclass(frozen=True)
class Probe:
    """One part of the snapshot and the keys it answers for, also when it fails."""

    name: str
    keys: Sequence[str]
    limit_s: float
    run: Callable[[Deadline], Found]


def snapshot(
    phase: str,
    raw_dir: str,
    *,
    tree: Optional[str],
    python: Sequence[str],
    env: Mapping[str, str],
    own_pids: Collection[int],
    deadline_s: float,
) -> Dict[str, Any]:
    """Take the state of this host within `deadline_s` seconds.

    phase: "before" or "after" the steps. raw_dir: where raw outputs are written. tree: the
    checkout, None before there is one. python: argv of the steps' interpreter. env: the steps'
    environment. own_pids: processes that are ours; any other one on a GPU is foreign.

    Returns {"schema", "phase", "taken_at", "duration_s", "fields", "raw"} (docs/environment.md).
    Raises ValueError for another phase; never for what the host does.
    """
    if phase not in PHASES:
        raise ValueError(f"phase is `{phase}`; expected one of {', '.join(PHASES)}")
    surroundings = Surroundings.here(env.get("PATH", ""))
    return take(phase, raw_dir, tree, python, env, own_pids, deadline_s, surroundings)


def take(
    phase: str,
    raw_dir: str,
    tree: Optional[str],
    python: Sequence[str],
    env: Mapping[str, str],
    own_pids: Collection[int],
    deadline_s: float,
    here: Surroundings,
) -> Dict[str, Any]:
    """`snapshot` of the host `here`."""
    started = time.monotonic()
    taken_at = host.utc_now()
    probes = _probes(here, raw_dir, tree, python, env, own_pids)
    readings, outputs = _ask(probes, Deadline(deadline_s))
    readings.update(variables.readings(env))
    entries, readings["snapshot.raw"] = raw.store(outputs, raw_dir)
    for key in FIXED_KEYS:
        readings.setdefault(key, unknown("", "no probe told it"))
    return {
        "schema": SCHEMA,
        "phase": phase,
        "taken_at": taken_at,
        "duration_s": round(time.monotonic() - started, 4),
        "fields": {key: readings[key].to_field(spec_of(key)) for key in sorted(readings)},
        "raw": entries,
    }


def _ask(probes: Sequence[Probe], deadline: Deadline) -> Tuple[Readings, List[Output]]:
    jobs = [Job(probe.name, probe.limit_s, probe.run) for probe in probes]
    outcomes = together(jobs, deadline)
    readings: Readings = {}
    outputs: List[Output] = []
    for probe in probes:
        outcome = outcomes[probe.name]
        if isinstance(outcome, ProbeError):
            readings.update(dict.fromkeys(probe.keys, error(probe.name, str(outcome))))
        else:
            readings.update(outcome.readings)
            outputs += outcome.outputs
    return readings, outputs


def _probes(
    here: Surroundings,
    raw_dir: str,
    tree: Optional[str],
    python: Sequence[str],
    env: Mapping[str, str],
    own_pids: Collection[int],
) -> List[Probe]:
    def probe(name: str, run: Callable[[Deadline], Found], limit_s: float = _TOOL_LIMIT_S) -> Probe:
        keys = [key for key in FIXED_KEYS if key.startswith(_PREFIXES[name])]
        return Probe(name, keys, limit_s, run)

    def files(name: str, read: Callable[[], Readings]) -> Probe:
        return probe(name, lambda deadline: Found(read()), _FILES_LIMIT_S)

    return [
        probe("gpu", partial(_gpus, here, own_pids), _GPU_LIMIT_S),
        probe("software", partial(_packages, python, env, tree)),
        probe("nvcc", partial(_nvcc, here, env)),
        probe("cpu", partial(_cpu, here)),
        probe("kernel log", partial(_kernel_log, here)),
        files("host", lambda: host.readings(here)),
        files("memory", lambda: memory.readings(here)),
        files("limits", lambda: limits.readings(here)),
        files("disk", lambda: disk.readings(here, raw_dir, tree)),
        files("rocm", lambda: {"rocm.version": software.rocm_reading(env, here)}),
    ]


# The keys each probe answers for.
_PREFIXES: Mapping[str, Tuple[str, ...]] = {
    "gpu": gpus.KEYS,
    "software": software.PACKAGE_KEYS,
    "nvcc": ("cuda.nvcc",),
    "cpu": ("cpu.", "numa."),
    "kernel log": ("kernel_log.",),
    "host": ("host.", "os.", "time."),
    "memory": ("memory.", "load.", "pressure."),
    "limits": ("limits.",),
    "disk": ("disk.",),
    "rocm": ("rocm.",),
}


def _gpus(here: Surroundings, own_pids: Collection[int], deadline: Deadline) -> Found:
    gathered = gpus.gather(here, deadline)
    return Found(gpus.readings(here, gathered, own_pids), gathered.outputs)


def _packages(
    python: Sequence[str], env: Mapping[str, str], tree: Optional[str], deadline: Deadline
) -> Found:
    answer = ask(software.packages_command(python, env, tree or "/"), deadline)
    return Found(software.package_readings(answer), [output_of("python-packages.json", answer)])


def _nvcc(here: Surroundings, env: Mapping[str, str], deadline: Deadline) -> Found:
    path = software.find_nvcc(env, here)
    if path is None:
        return Found(software.nvcc_readings(None))
    answer = ask(Command((path, "--version"), env), deadline)
    return Found(software.nvcc_readings(answer), [output_of("nvcc-version.txt", answer)])


def _cpu(here: Surroundings, deadline: Deadline) -> Found:
    tool = here.tool("lscpu")
    if tool is None:
        return Found(cpu.readings(here, None))
    answer = ask(Command((tool, "-J")), deadline)
    return Found(cpu.readings(here, answer), [output_of("lscpu.json", answer)])


def _kernel_log(here: Surroundings, deadline: Deadline) -> Found:
    log = kernel_log.read_log(here, deadline)
    nvidia = gpus.traces_of(here).get("nvidia")
    output = kernel_log.output(log)
    readings = kernel_log.readings(log, nvidia is not None and nvidia.proven)
    return Found(readings, [] if output is None else [output])
