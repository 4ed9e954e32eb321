"""The experiment file: what to run, over which points, under which deadlines."""

from __future__ import annotations

import signal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from orchestrator.spec.compare import CompareRule
from orchestrator.spec.model import Model, nearest
from orchestrator.spec.quantity import Duration, Size, wrong
from orchestrator.spec.words import (
    AxisName,
    Count,
    EnvName,
    EnvValue,
    ExperimentName,
    HostName,
    ScalarValue,
    StepId,
    TreePath,
    show_scalar,
)

Guard = Literal["implicit-device", "uninitialised-output", "bench-input", "sync", "cache"]


def _signal_name(value: Any) -> Any:
    text = str(value).upper().removeprefix("SIG")
    known = {name.removeprefix("SIG") for name in signal.Signals.__members__} | _POSIX_SIGNALS
    if text not in known:
        match = nearest(text, known)
        raise wrong(
            f"`{value}` is not a signal",
            "a name such as `TERM` or `INT`",
            f"did you mean `{match}`?" if match else "",
        )
    if text in ("KILL", "STOP"):
        raise wrong(f"`{value}` cannot be handled by a program", "`TERM`, `INT` or another one")
    if text == "USR1":
        raise wrong("`USR1` is taken: NCCL catches it", "`TERM`, `INT` or `USR2`", "write `TERM`")
    return text


# A Windows laptop knows few of these by number; the host knows them all.
_POSIX_SIGNALS = {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "KILL", "STOP"}

SignalName = Annotated[
    str, BeforeValidator(_signal_name), WithJsonSchema({"type": "string", "examples": ["TERM"]})
]


def _command(value: Any) -> Any:
    if isinstance(value, str):
        if value.strip():
            return value
        raise wrong("the command is empty", "a bash script or a list of arguments")
    if not isinstance(value, list) or not value:
        raise wrong(f"`{value}` is not a command", "a bash script or a list of arguments")
    for argument in value:
        if not isinstance(argument, (str, int, float, bool)):
            raise wrong(f"the argument `{argument}` is not a scalar", "text or a number")
    return tuple(show_scalar(argument) for argument in value)


Command = Annotated[
    Any,
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            ]
        }
    ),
]


class Stop(Model):
    """How a step is asked to end before it is killed."""

    signal: SignalName = "TERM"
    """Sent to every process of the step."""
    grace: Duration = 5.0
    """How long the processes may take before KILL."""


class Matrix(Model):
    """The points of a step: the product of its axes, less `exclude`, plus `include`."""

    model_config = ConfigDict(extra="allow")

    include: tuple[dict[AxisName, ScalarValue], ...] = ()
    """Points added to the product; each names every axis."""
    exclude: tuple[dict[AxisName, ScalarValue], ...] = ()
    """Points left out: every point that has all these values."""

    __pydantic_extra__: dict[AxisName, Annotated[tuple[ScalarValue, ...], Field(min_length=1)]]

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Axis names and their values, in the order of the file."""
        return dict(self.__pydantic_extra__ or {})


class Step(Model):
    """One command, run once for each point of its matrix."""

    id: StepId
    """Name of the step, unique in the file."""
    run: Command
    """A bash script (`bash --norc -eo pipefail -c`), or a list of arguments run without a shell.
    `{axis}` becomes the value of the point, shell-quoted; `{{axis}}` a literal `{axis}`."""
    needs: tuple[StepId, ...] = ()
    """Steps that must have passed; otherwise this one is skipped."""
    matrix: Matrix | None = None
    timeout: Duration | None = None
    """Deadline of each point, kept on the host."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables of this step, on top of the experiment's."""
    gpus: Annotated[Count, Field(ge=0, le=1024)] = 0
    """Whole GPUs leased for each point."""
    rounds: Annotated[Count, Field(ge=1, le=1000)] = 1
    """Fresh processes for each point, interleaved across the points of the step."""
    stop: Stop = Stop()
    collect: tuple[TreePath, ...] = ()
    """Globs, relative to `workdir`, of files to bring home when the step wrote them."""
    workdir: TreePath = "."
    """Where the command runs, relative to the top of the tree."""
    log_limit: Size | None = None
    """Longest log kept; beyond it the head and the tail stay and the gap is named."""
    guards: tuple[Guard, ...] = ()
    """Run-time checks switched on in every Python process of the step."""


class Experiment(Model):
    """The whole file."""

    experiment: ExperimentName
    """Name of the experiment; part of every run id."""
    question: str = ""
    """What the numbers decide, in one sentence."""
    kind: Literal["experiment", "probe"] = "experiment"
    """A probe looks around and needs no ledger."""
    host: HostName = "local"
    """A name in hosts.yaml, or `local`; `--host` overrides it."""
    timeout: Duration | None = None
    """Deadline of every step that names none."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables of every step."""
    secrets: tuple[EnvName, ...] = ()
    """Variables taken from your environment at `orch run`; their values are never stored."""
    caches: Literal["isolated", "cleared", "kept"] = "isolated"
    """Build and JIT caches: fresh for this run, wiped before it, or kept (results say `warm`)."""
    include: tuple[TreePath, ...] = ()
    """Files that git ignores and that travel all the same."""
    max_upload: Size = 200_000_000
    """Most new bytes one run may send."""
    log_limit: Size = 64_000_000
    """Longest log kept of each point."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    compare: tuple[CompareRule, ...] = ()
    """How artifacts of two runs of this experiment are compared; `orch diff` reads it."""
    ledger: TreePath | None = None
    """Predictions made before the run; a path relative to this file."""
