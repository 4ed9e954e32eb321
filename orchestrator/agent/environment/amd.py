"""AMD hosts: `amd-smi` where it answers, the older `rocm-smi` where it does not."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from orchestrator.agent.environment import amd_smi, rocm_smi
from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    first_known,
    merged,
    unknown,
)
from orchestrator.agent.environment.findings import Findings, completed
from orchestrator.agent.environment.host import file_reading
from orchestrator.agent.environment.probe import Answer, Command, Deadline
from orchestrator.agent.environment.raw import output_of
from orchestrator.agent.environment.surroundings import AMD_TOOL_PLACES, Surroundings
from orchestrator.agent.environment.together import ask_all
from orchestrator.agent.environment.tool_json import Block, parse_json
from orchestrator.agent.environment.topology import KEYS as TOPOLOGY_KEYS
from orchestrator.agent.environment.topology import Links, Matrix, matrix_readings

_LIMIT_S = 20.0
# The tool is a Python program behind a lock of its library: more at once wait for each other.
_ROCM_SMI_AT_ONCE = 4
_GLANCE_COMMANDS = ("static", "metric", "list", "process")
_AMD_SMI_COMMANDS = (*_GLANCE_COMMANDS, "topology", "version")


def look(host: Surroundings, deadline: Deadline, *, glance: bool = False) -> Findings:
    """`glance`: only what leases and a step's log need."""
    findings = Findings("amd")
    tool = host.tool("amd-smi", AMD_TOOL_PLACES)
    if tool is not None:
        commands = _GLANCE_COMMANDS if glance else _AMD_SMI_COMMANDS
        _look_with_amd_smi(findings, tool, commands, deadline)
    older = host.tool("rocm-smi", AMD_TOOL_PLACES)
    if not findings.gpus and older is not None:
        _look_with_rocm_smi(findings, older, deadline)
    if tool is None and older is None:
        findings.failure = unknown("PATH", "neither amd-smi nor rocm-smi is installed")
    gap = findings.failure or unknown("amd-smi", "the tools do not tell it")
    if findings.gpus:
        findings.failure = None
    findings.gpus = [completed(gpu, "amd", gap) for gpu in findings.gpus]
    findings.topology = {key: findings.topology.get(key, gap) for key in TOPOLOGY_KEYS}
    findings.driver.setdefault("driver.version", gap)
    findings.driver["driver.kernel_module"] = file_reading(host, "/sys/module/amdgpu/version")
    return findings


def _look_with_amd_smi(
    findings: Findings, tool: str, commands: Tuple[str, ...], deadline: Deadline
) -> None:
    asked = {name: Command((tool, name, "--json")) for name in commands}
    documents, problems = _documents(findings, ask_all(asked, _LIMIT_S, deadline), "amd-smi")
    entries: Dict[str, Dict[int, Mapping[str, Any]]] = {}
    for name in (name for name in _GLANCE_COMMANDS if name in documents):
        try:
            entries[name] = amd_smi.gpu_entries(documents[name])
        except ValueError as failure:
            problems.append(f"amd-smi {name}: {failure}")
    numbers = sorted({index for found in entries.values() for index in found})
    findings.gpus = [
        amd_smi.gpu_readings(
            index, {name: found[index] for name, found in entries.items() if index in found}
        )
        for index in numbers
    ]
    if "static" in entries and numbers:
        first = Block(entries["static"].get(numbers[0]), "amd-smi static")
        findings.driver["driver.version"] = amd_smi.driver_version(first)
    if "topology" in documents:
        findings.topology = _topology(documents["topology"])
    _tell(findings, problems, "amd-smi")


def _topology(document: Any) -> Readings:
    try:
        found: Links = amd_smi.links(document)
    except (ValueError, KeyError, TypeError) as failure:
        gone = error("amd-smi topology", f"the topology has another shape: {failure!r}")
        return dict.fromkeys(TOPOLOGY_KEYS, gone)
    return matrix_readings(Matrix(found), "amd-smi topology")


def _look_with_rocm_smi(findings: Findings, tool: str, deadline: Deadline) -> None:
    answers: Dict[str, Answer] = {}
    flags = list(rocm_smi.FLAGS)
    for start in range(0, len(flags), _ROCM_SMI_AT_ONCE):
        group = flags[start : start + _ROCM_SMI_AT_ONCE]
        asked = {" ".join(flag): Command((tool, *flag, "--json")) for flag in group}
        answers.update(ask_all(asked, _LIMIT_S, deadline))
    found, problems = _documents(findings, answers, "rocm-smi")
    documents = [document for document in found.values() if isinstance(document, Mapping)]
    cards = rocm_smi.cards(documents)
    values = rocm_smi.system(documents)
    # This flag answers in text on some releases, whatever form was asked for.
    nodes = rocm_smi.parse_numa_text(answers["--showtoponuma"].text)
    findings.gpus = [
        merged(rocm_smi.gpu_readings(i, cards[i]), {"numa_node": nodes[i]} if i in nodes else {})
        for i in sorted(cards)
    ]
    findings.driver["driver.version"] = rocm_smi.driver_version(values)
    found_links = rocm_smi.links(values)
    if found_links or len(cards) == 1:
        findings.topology = matrix_readings(Matrix(found_links), "rocm-smi --showtopotype")
    _tell(findings, problems, "rocm-smi")


def _documents(
    findings: Findings, answers: Mapping[str, Answer], tool: str
) -> Tuple[Dict[str, Any], List[str]]:
    """(the documents that could be read, why the others could not); keeps the raw outputs."""
    documents: Dict[str, Any] = {}
    problems: List[str] = []
    for name, answer in answers.items():
        findings.hung |= answer.exit is None
        findings.outputs.append(output_of(_file(tool, name), answer))
        try:
            documents[name] = parse_json(answer.text) if not answer.problem else None
        except ValueError as failure:
            problems.append(f"{tool} {name}: {failure}")
        if answer.problem:
            problems.append(f"{tool} {name} {answer.problem}")
    return {name: found for name, found in documents.items() if found is not None}, problems


def _file(tool: str, name: str) -> str:
    return f"{tool}-{name.replace('--show', '').replace(' ', '-')}.json"


def _tell(findings: Findings, problems: List[str], tool: str) -> None:
    """Keep the reasons: they become the gap of every key that nobody told."""
    if problems:
        reason: Reading = error(tool, "; ".join(problems))
    elif not findings.gpus:
        reason = unknown(tool, f"{tool} answers and lists no GPU")
    else:
        return
    findings.failure = first_known(findings.failure, reason) if findings.failure else reason
