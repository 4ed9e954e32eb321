"""What `nvidia-smi` answered: its exit status first, then the document, then its warnings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from orchestrator.agent.environment.field import Reading, Readings, error, known, words
from orchestrator.agent.environment.probe import Answer
from orchestrator.agent.environment.smi_xml import (
    SOURCE,
    driver_readings,
    gpu_readings,
    parse_document,
)


@dataclass
class Report:
    """What the tool told. `failure` is set when the document as a whole could not be had."""

    driver: Readings = field(default_factory=dict)
    gpus: List[Readings] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    failure: Optional[Reading] = None


def parse(answer: Answer) -> Report:
    """Read the XML document; the tool's exit status decides first, then the document itself."""
    report = Report(warnings=warning_lines(answer.text))
    if answer.problem:
        report.failure = error(SOURCE, f"nvidia-smi {answer.problem}")
        return report
    try:
        root = parse_document(answer.text)
    except ValueError as failure:
        report.failure = error(SOURCE, str(failure))
        return report
    report.driver = driver_readings(root)
    report.gpus = [gpu_readings(gpu, index) for index, gpu in enumerate(root.findall("gpu"))]
    return report


_LISTED = re.compile(r"GPU (?P<index>\d+): (?P<name>.+) \(UUID: (?P<uuid>GPU-[\w-]+)\)")
_LISTED_MIG = re.compile(r"\s+MIG (?P<name>\S+)\s+Device\s+(\d+): \(UUID: (?P<uuid>MIG-[^)]+)\)")


def parse_list(answer: Answer) -> Report:
    """Read `nvidia-smi -L`: index, name and uuid of each GPU, name and uuid of its MIG devices."""
    source = "nvidia-smi -L"
    report = Report(warnings=warning_lines(answer.text))
    if answer.problem:
        report.failure = error(source, f"nvidia-smi {answer.problem}")
        return report
    devices: List[Dict[str, Any]] = []
    for line in answer.text.splitlines():
        gpu, mig = _LISTED.match(line), _LISTED_MIG.match(line)
        if gpu:
            devices = []
            report.gpus.append(
                {
                    "index": known(int(gpu["index"]), source),
                    "name": words(gpu["name"], source),
                    "uuid": known(gpu["uuid"], source),
                }
            )
        elif mig and report.gpus:
            devices.append({"name": mig["name"], "uuid": mig["uuid"], "memory_total": None})
            report.gpus[-1]["mig_devices"] = known(devices, source)
    if not report.gpus:
        report.failure = error(source, f"nvidia-smi -L listed no GPU: {answer.last_words}")
    return report


_WARNING = re.compile(
    r"Unable to determine the device handle for |WARNING:|GPU is lost|infoROM is corrupted",
    re.IGNORECASE,
)


def warning_lines(text: str) -> List[str]:
    """What the tool says about lost or damaged GPUs: on stdout, before everything else."""
    return [line.strip() for line in text.splitlines() if _WARNING.search(line)]
