"""Tell a result to the run that this process is a step of; alone, print the same line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from kernels.backend import BACKEND, Backend

METRIC = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")

Value = float | int | str | bool | None


def record(
    metric: str,
    value: Value,
    unit: str = "",
    *,
    samples: list[float] | None = None,
    point: dict[str, Any] | None = None,
    timing: dict[str, Any] | None = None,
    check: dict[str, Any] | None = None,
    status: str = "ok",
    note: str = "",
) -> None:
    """Record one measured value; a value that is not a finite number is an error, never a number.

    `point` names only axes this process loops over itself: those of the step's matrix are known.

    Raises:
        ValueError: for a metric that is no name, or a value beside a status other than `ok`.
    """
    if not METRIC.fullmatch(metric):
        raise ValueError(f"metric `{metric}` is not lower-case words joined by `.` and `_`")
    if isinstance(value, float) and not math.isfinite(value):
        note = f"measured {value}" + (f"; {note}" if note else "")
        value, status = None, "error"
    if (value is None) == (status == "ok"):
        raise ValueError(f"metric `{metric}`: a value goes with status `ok`, None with another")
    _sink()(
        metric,
        value,
        unit,
        samples=samples,
        point=point,
        timing=timing,
        check=check,
        status=status,
        note=note,
    )


def record_time(metric: str, value: float, unit: str = "us", **rest: Any) -> None:
    """Record what was timed, or a ratio of it: of compiled kernels only.

    What interpreting their source on a CPU takes answers no prediction of a time, so it has the
    status `not_applicable`, and stands in the note; `rest` as for `record`, without samples then.
    """
    if BACKEND is Backend.GPU:
        record(metric, value, unit, **rest)
        return
    rest.pop("samples", None)
    shown = f"{value:.6g} {'' if unit == '1' else unit}".rstrip()
    note = f"{shown} in the interpreter, on a CPU: no kernel was timed"
    record(metric, None, unit, status="not_applicable", note=note, **rest)


def _sink() -> Callable[..., None]:
    try:
        from orch_results import record as told_to_the_run
    except ModuleNotFoundError as missing:
        if missing.name != "orch_results":
            raise
        return _print_line
    return told_to_the_run


def _print_line(metric: str, value: Value, unit: str, **rest: Any) -> None:
    given = {key: held for key, held in rest.items() if held not in (None, "")}
    print(json.dumps({"metric": metric, "value": value, "unit": unit, **given}))
