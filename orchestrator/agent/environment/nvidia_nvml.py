"""Ask NVML in a process of its own, because one of its calls can hang in the kernel for ever.

That process is this module too: it imports `pynvml`, prints one line of JSON for the driver and one
for each GPU as soon as it has them, and what it printed before it was killed still counts.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass, field
from typing import Any, Iterator, List, Mapping, Optional

from orchestrator.agent.environment.field import Reading, Readings, error, unknown
from orchestrator.agent.environment.nvml_device import driver_readings, gpu_readings
from orchestrator.agent.environment.nvml_library import SOURCE, Library
from orchestrator.agent.environment.probe import Answer, Command


def lines(module: Any) -> Iterator[str]:
    """What the process prints: one JSON line for the driver, one for each GPU, one at the end."""
    library = Library(module)
    started = library.get("nvmlInit", change=lambda nothing: True)
    if not started.known:
        yield _line("failed", {"init": started})
        return
    driver = driver_readings(library)
    yield _line("driver", driver)
    for index in range(driver["gpu.count"].value or 0):
        yield _line("gpu", gpu_readings(library, index))
    yield _line("end", {})


def _line(part: str, readings: Readings) -> str:
    packed = {key: [r.state, r.value, r.source, r.detail] for key, r in readings.items()}
    return json.dumps({"part": part, "readings": packed})


def main() -> None:
    """The process: import pynvml, print every line as soon as it is known."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError as failure:
        gone = unknown(SOURCE, f"pynvml cannot be imported: {failure}")
        sys.stdout.write(_line("failed", {"init": gone}) + "\n")
        return
    for line in lines(module):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


@dataclass
class Report:
    """What the process said before its end. `failure` tells why something is missing, if it is."""

    driver: Readings = field(default_factory=dict)
    gpus: List[Readings] = field(default_factory=list)
    failure: Optional[Reading] = None


# The agent may lie in an archive that only this process has on its path.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from orchestrator.agent.environment.nvidia_nvml import main; main()"
)


def command() -> Command:
    """The process to start; it is isolated from the user's site packages and start-up files."""
    argv = (sys.executable, "-I", "-S", "-c", _START, json.dumps(sys.path))
    return Command(argv, shown=("python3", "nvidia_nvml.py"))


def parse(answer: Answer) -> Report:
    """Read what the process printed; lines cut off by its end are left out and told of."""
    report = Report()
    ended = False
    for line in answer.text.splitlines():
        message = _message(line)
        if message is None:
            continue
        readings = {key: Reading(*fields) for key, fields in message["readings"].items()}
        if message["part"] == "driver":
            report.driver = readings
        elif message["part"] == "gpu":
            report.gpus.append(readings)
        elif message["part"] == "failed":
            report.failure = readings["init"]
            return report
        ended = ended or message["part"] == "end"
    if not ended:
        report.failure = error(SOURCE, f"NVML {answer.problem or 'stopped in the middle'}")
    return report


def _message(line: str) -> Optional[Mapping[str, Any]]:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "part" in message else None
