"""How a step tells its results: `from orch_results import record`.

The agent puts this module on the step's PYTHONPATH; nothing is installed. Every call appends one
JSON line to the file `$ORCH_RESULTS` in a single write, so that several processes may record at
once and a crash loses nothing that was recorded before it.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from typing import Any, Mapping, Sequence

_METRIC = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_STATUSES = ("ok", "skipped", "not_applicable", "unknown", "error")


def record(
    metric: str,
    value: Any,
    unit: str = "",
    *,
    samples: Sequence[Any] | None = None,
    point: Mapping[str, Any] | None = None,
    timing: Mapping[str, Any] | None = None,
    check: Mapping[str, Any] | None = None,
    status: str = "ok",
    note: str = "",
) -> None:
    """Append one result.

    Args:
        metric: a name such as `e2e` or `rel_l2.out`.
        value: a number, text or truth value; None when there is none, with a status that says why.
        unit: UCUM, such as `us`, `By`, `1`.
        samples: the single measurements behind the value, in the order they were taken.
        point: axes this process itself loops over; the step's own axes are known already.
        timing: how the value was timed (mode, scope, flush, warmup, ...).
        check: evidence that the right thing was computed (error, hash, kernel names, ...).
        status: ok, skipped, not_applicable, unknown or error.

    Raises:
        ValueError: a value is not finite or missing without a reason, or a name is malformed. A
            number that was not measured must not look like one.
        OSError: the results file cannot be written.
    """
    if not _METRIC.fullmatch(str(metric)):
        raise ValueError(f"metric {metric!r}: use lower case, digits, _ and dots")
    if status not in _STATUSES:
        raise ValueError(f"status {status!r}: one of {', '.join(_STATUSES)}")
    if (value is None) != (status != "ok"):
        raise ValueError(f"metric {metric!r}: a value goes with status 'ok', None with another")
    line = {
        "schema": 1,
        "metric": metric,
        "value": _plain(metric, value),
        "unit": unit,
        "samples": None if samples is None else [_plain(metric, sample) for sample in samples],
        "point": dict(point or {}),
        "timing": timing,
        "check": check,
        "status": status,
        "note": note,
        "pid": os.getpid(),
        "at_s": time.time(),
    }
    _append(json.dumps(line, allow_nan=False, ensure_ascii=False))


def _plain(metric: str, value: Any) -> Any:
    """A JSON scalar; numpy and torch scalars are read through `item`."""
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"metric {metric!r} is {value!r}; record None with status='error' and a note"
        )
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"metric {metric!r} is a {type(value).__name__}")
    return value


def _append(line: str) -> None:
    path = os.environ.get("ORCH_RESULTS")
    if not path:
        sys.stdout.write(line + "\n")
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode("utf-8") + b"\n")
    finally:
        os.close(handle)
