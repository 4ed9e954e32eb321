"""The small vocabulary that all three kinds of file share: names, scalars, axes."""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Strict, StringConstraints, WithJsonSchema

from orchestrator.spec.quantity import wrong

Scalar = str | int | float | bool

StepId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=60)]
AxisName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$")]
EntryId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
ExperimentName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)
]
HostName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Count = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.+:/-]+")


def _as_scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(f"`{value}` is not a finite number", "text, a finite number, true or false")
    if not isinstance(value, (str, int, float, bool)):
        kind = "empty" if value is None else f"a {type(value).__name__}"
        raise wrong(f"the value is {kind}", "text, a number, true or false")
    return value


ScalarValue = Annotated[
    Any,
    BeforeValidator(_as_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


def _as_env_text(value: Any) -> Any:
    return show_scalar(_as_scalar(value))


EnvValue = Annotated[
    str, BeforeValidator(_as_env_text), WithJsonSchema({"type": ["string", "number", "boolean"]})
]


def _inside_the_tree(value: str) -> str:
    parts = value.replace("\\", "/").split("/")
    if not value or value.startswith(("/", "~", "\\")) or ".." in parts or ":" in parts[0]:
        raise wrong(f"`{value}` leaves the tree", "a path relative to the top of the working tree")
    return value


TreePath = Annotated[str, AfterValidator(_inside_the_tree)]


def show_scalar(value: Scalar) -> str:
    """A scalar as a shell, a point id and an environment variable show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def show_in_id(value: Scalar) -> str:
    """A scalar inside a point id: bare when that is unambiguous, quoted otherwise."""
    text = show_scalar(value)
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
