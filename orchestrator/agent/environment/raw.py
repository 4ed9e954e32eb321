"""Store what the tools printed, as they printed it, beside what was understood of it."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from orchestrator.agent.environment.field import Reading, error, known
from orchestrator.agent.environment.probe import Answer
from orchestrator.agent.environment.redact import redacted

_SOURCE = "file system"


@dataclass(frozen=True)
class Output:
    """Something a tool printed, and the name of the file it shall lie in."""

    file: str
    command: Tuple[str, ...]
    exit: Optional[int]
    content: bytes


def output_of(file: str, answer: Answer) -> Output:
    """What a command printed; its error stream where it printed nothing else."""
    return Output(file, answer.command, answer.exit, answer.output or answer.errors)


def store(outputs: Sequence[Output], folder: str) -> Tuple[List[Dict[str, Any]], Reading]:
    """Write each output under `folder`; (the list for the snapshot, how that went).

    Secrets are taken out before the hash is made. An output that cannot be written is named in the
    reading and left out of the list.
    """
    entries: List[Dict[str, Any]] = []
    failures: List[str] = []
    for output in outputs:
        content = redacted(output.content.decode("utf-8", "surrogateescape"))
        data = content.encode("utf-8", "surrogateescape")
        try:
            _write(os.path.join(folder, output.file), data)
        except OSError as failure:
            failures.append(f"{output.file}: {failure.strerror}")
            continue
        entries.append(_entry(output, data))
    if failures:
        return entries, error(_SOURCE, f"could not store {'; '.join(failures)}")
    return entries, known(len(entries), _SOURCE)


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def _entry(output: Output, data: bytes) -> Dict[str, Any]:
    return {
        "file": output.file,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "command": shlex.join(output.command),
        "exit": output.exit,
    }
