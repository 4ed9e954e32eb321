"""Hygon hosts: `hy-smi`, read where its outputs are understood and kept raw where they are not.

No processes are read: none of the tool's outputs that could be studied tells which device a process
uses. The same holds for the topology.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, TypeVar

from orchestrator.agent.environment import hy_smi
from orchestrator.agent.environment.field import Reading, error, unknown
from orchestrator.agent.environment.findings import Findings, completed, matched
from orchestrator.agent.environment.probe import Answer, Command, Deadline
from orchestrator.agent.environment.raw import output_of
from orchestrator.agent.environment.together import ask_all
from orchestrator.agent.environment.topology import KEYS as TOPOLOGY_KEYS

T = TypeVar("T")

_LIMIT_S = 20.0
_ARGUMENTS: Mapping[str, List[str]] = {
    "table": [],
    "all": ["-a", "--json"],
    "driver": ["--showdriverversion"],
    "pids": ["--showpids"],
    "topology": ["--showtopo"],
}
_FILES = {
    "table": "hy-smi.txt",
    "all": "hy-smi-all.json",
    "driver": "hy-smi-driverversion.txt",
    "pids": "hy-smi-pids.txt",
    "topology": "hy-smi-topo.txt",
}
_GLANCE = ("table", "all")


def look(tool: str, deadline: Deadline, *, glance: bool = False) -> Findings:
    """`glance`: only what leases and a step's log need."""
    names = _GLANCE if glance else tuple(_ARGUMENTS)
    commands = {name: Command((tool, *_ARGUMENTS[name])) for name in names}
    answers = ask_all(commands, _LIMIT_S, deadline)
    problems: List[str] = []
    table = _read(answers["table"], hy_smi.parse_table, problems) or []
    cards: Dict[int, Dict[str, str]] = _read(answers["all"], hy_smi.parse_all, problems) or {}
    listed = [hy_smi.card_readings(index, cards[index]) for index in sorted(cards)]
    gap = unknown(hy_smi.SOURCE, "hy-smi does not tell it")
    if problems:
        gap = error(hy_smi.SOURCE, "; ".join(problems))
    findings = Findings("hygon")
    findings.gpus = [completed(gpu, "hygon", gap) for gpu in matched(table, listed)]
    findings.failure = None if findings.gpus else gap
    findings.driver["driver.version"] = _driver(answers.get("driver"))
    raw = unknown("hy-smi --showtopo", "only the raw output is kept")
    findings.topology = dict.fromkeys(TOPOLOGY_KEYS, raw)
    findings.hung = any(answer.exit is None for answer in answers.values())
    findings.outputs = [output_of(_FILES[name], answer) for name, answer in answers.items()]
    return findings


def _read(answer: Answer, parse: Callable[[str], T], problems: List[str]) -> Optional[T]:
    """What `parse` makes of the output; None, with the reason noted, when nothing."""
    command = " ".join(["hy-smi", *answer.command[1:]])
    if answer.problem:
        problems.append(f"{command} {answer.problem}")
        return None
    try:
        return parse(answer.text)
    except ValueError as failure:
        problems.append(f"{command}: {failure}")
        return None


def _driver(answer: Optional[Answer]) -> Reading:
    source = "hy-smi --showdriverversion"
    if answer is None:
        return unknown(source, "was not asked")
    return error(source, answer.problem) if answer.problem else hy_smi.driver_version(answer.text)
