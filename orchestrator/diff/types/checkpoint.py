"""pt and pth: unpickled by torch's weights-only loader, in one more process, then as safetensors.

A pickle is a program. The weights-only loader runs a small, known part of it; should that fail to
hold, it happens in a process that has a deadline and a memory limit and gives back nothing but a
safetensors file and a JSON document.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.diff.blob import Blob
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record
from orchestrator.diff.refusal import Skipped, Unreadable
from orchestrator.diff.types import collection, tensors

# What the child's exit codes say; see `unpickle.py`.
_NO_TORCH = 3
_REFUSED = 4


def compare(pair: Pair) -> Record:
    """Compare two checkpoints: every tensor in them, and the plain values beside."""
    # Both children must be over before the pair's own deadline.
    deadline_s = pair.limits.deadline_s * 0.45
    a, b = pair.read(lambda blob: _read(blob, deadline_s))
    values = [
        Location(name, _shown(a[0], name), _shown(b[0], name))
        for name in sorted({*a[0], *b[0]})
        if a[0].get(name, ...) != b[0].get(name, ...)
    ]
    return collection.compare(pair, a[1], b[1], values)


def check(pair: Pair) -> None:
    _read(pair.a, pair.limits.deadline_s * 0.45)


def _read(blob: Blob, deadline_s: float) -> tuple[dict[str, Any], dict[str, collection.Opener]]:
    source = blob.on_disk()
    target = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=blob.scratch))
    _unpickle(source, target, deadline_s)
    made = target / "tensors.safetensors"
    opened = tensors.read(Blob(made, made.stat().st_size))[1]
    return json.loads((target / "values.json").read_bytes()), opened


def _unpickle(source: Path, target: Path, deadline_s: float) -> None:
    command = [sys.executable, "-m", "orchestrator.diff.types.unpickle", str(source), str(target)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Skipped(f"torch took longer than {deadline_s:.0f} s to load it") from error
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode == _NO_TORCH:
        raise Skipped("`torch` is not installed: pip install 'gpu-orch[kernels]'")
    if done.returncode == _REFUSED:
        raise Unreadable(f"torch refuses it: {said[-1] if said else 'no reason'}")
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        raise Unreadable(f"torch ended with {how} on it: {said[-1] if said else ''}")


def _shown(values: dict[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else ""
