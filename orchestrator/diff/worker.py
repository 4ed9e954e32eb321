"""The process that reads untrusted files: pairs in, records out, one JSON line each.

It is started by `confined.py`, which kills it at a pair's deadline. Nothing it answers is trusted
there beyond being a record.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from orchestrator.diff import reading
from orchestrator.diff.blob import Blob
from orchestrator.diff.limits import Limits
from orchestrator.diff.refusal import Skipped, Unreadable, needs
from orchestrator.spec.compare import CompareRule


def main() -> None:
    """Answer every line of standard input until it ends."""
    # A reader's library may print; the answers have a handle of their own.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    setup = json.loads(sys.stdin.readline())
    limits = Limits(**setup["limits"])
    scratch = Path(setup["scratch"])
    _bound_memory(limits.memory_bytes)
    answers.write(b"ready\n")
    for line in sys.stdin:
        record = _answer(json.loads(line), limits, scratch)
        answers.write(json.dumps(record, allow_nan=False).encode("utf-8") + b"\n")
        _sweep(scratch)


def _answer(request: dict[str, Any], limits: Limits, scratch: Path) -> dict[str, Any]:
    a, b = (Blob.from_json(request[side], scratch) for side in ("a", "b"))
    if "overlay" in request:
        return {"problem": _draw(a, b, Path(request["overlay"]))}
    return reading.compare(
        request["path"],
        a,
        b,
        # Validated where the experiment was read; its units are plain numbers by now.
        CompareRule.model_construct(**request["rule"]),
        limits,
    ).as_json()


def _draw(a: Blob, b: Blob, target: Path) -> str:
    """Write the overlay of two images; returns why there is none."""
    try:
        from orchestrator.diff.types import image

        target.write_bytes(image.overlay(a, b))
    except ModuleNotFoundError as error:
        return str(needs(str(error.name)))
    except (Unreadable, Skipped) as error:
        return str(error)
    except MemoryError:
        return "needs more memory than is allowed"
    return ""


def _bound_memory(most_bytes: int) -> None:
    """Let the kernel refuse memory beyond the limit; macOS and Windows keep no such limit."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    # Counts what is allocated, not the files that are mapped.
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _sweep(scratch: Path) -> None:
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


if __name__ == "__main__":
    main()
