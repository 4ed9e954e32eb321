"""The conditions of a run, as a terminal shows them: the facts that tell, and the drift."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator.report.words import harmless, show_fact
from orchestrator.verdict.conditions import Conditions, Field, drifted

# Facts a reader wants before believing a number, in this order, when the host has them.
TELLING = (
    "driver.version",
    "cpu.model",
    "os.kernel",
    "python.version",
    "torch.version",
    "triton.version",
    "cuda.runtime",
)
TELLING_GPU = ("name", "clock_sm", "clock_sm_max", "power_limit", "throttle_reasons", "ecc_mode")


def shown(conditions: Conditions) -> RenderableType:
    """What a number was measured under, and what became another meanwhile."""
    lines = [*_facts(conditions), *_drift(conditions)]
    if not lines:
        return Text("conditions: no snapshot of the host came home", style="bold yellow")
    return Group(*lines)


def _facts(conditions: Conditions) -> Iterable[Text]:
    fields = conditions.before
    told = [_fact(name, fields[name]) for name in TELLING if _is_known(fields.get(name))]
    if conditions.caches:
        told.append(f"caches {conditions.caches}")
    if told:
        yield Text("conditions: " + ", ".join(told), style="dim")
    for index in range(64):
        parts = [
            _fact(name, fields[f"gpu.{index}.{name}"])
            for name in TELLING_GPU
            if _is_known(fields.get(f"gpu.{index}.{name}"))
        ]
        if not parts:
            return
        yield Text(f"  GPU {index}: " + ", ".join(parts), style="dim")


def _is_known(field: Field | None) -> bool:
    return field is not None and field.state == "value"


def _fact(name: str, field: Field) -> str:
    label = name.removesuffix(".version").removesuffix(".model").removesuffix(".name")
    bare = label in ("name", "cpu")
    return harmless(f"{'' if bare else label + ' '}{show_fact(field)}")


def _drift(conditions: Conditions) -> Iterable[Text]:
    """What was identity and is another now: such a run compares with nothing."""
    for drift in drifted(conditions):
        words = f"{drift.moment}: {drift.name}: {show_fact(drift.before)}"
        words += f" -> {show_fact(drift.after)}"
        if not drift.after.is_known and drift.after.detail:
            words += f" ({drift.after.detail})"
        yield Text(harmless(words), "bold yellow")
