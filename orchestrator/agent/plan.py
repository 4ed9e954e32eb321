"""The plan: what the controller orders, exactly as the host carries it out.

One JSON document, `plan.json`, written once before the first step. Times are in seconds and sizes
in bytes. The controller expands the experiment; the host follows the jobs in their order.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

SCHEMA = 1

Scalar = Union[str, int, float, bool]


@dataclass(frozen=True)
class Stop:
    """How a job is asked to end: the signal's name without SIG, then the grace before KILL."""

    signal: str = "TERM"
    grace_s: float = 5.0


@dataclass(frozen=True)
class Job:
    """One fresh process: a point of a step in one round.

    `run` is a bash script or an argument list. `folder` is the job's directory under `steps/`:
    safe on every file system, unique in the plan.
    """

    id: str
    step: str
    point: Dict[str, Scalar]
    round: int
    folder: str
    run: Union[str, List[str]]
    timeout_s: float
    workdir: str = "."
    env: Dict[str, str] = field(default_factory=dict)
    gpus: int = 0
    stop: Stop = Stop()
    collect: List[str] = field(default_factory=list)
    log_limit_bytes: int = 64_000_000
    guards: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Activation:
    """What a shell on this host needs before a step: at most one of python, venv and conda."""

    python: Optional[str] = None
    venv: Optional[str] = None
    conda: Optional[str] = None
    modules: List[str] = field(default_factory=list)
    setup: str = ""
    env: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Everything one run does.

    `needs` maps a step to the steps that must have passed. `tree` is the root hash of the source
    tree in git's object format `object_format` (sha1 or sha256). `secrets` are names only: their
    values travel beside the plan and never touch a disk.
    """

    run_id: str
    experiment: str
    tree: str
    object_format: str
    caches: str
    jobs: List[Job]
    needs: Dict[str, List[str]] = field(default_factory=dict)
    env: Dict[str, str] = field(default_factory=dict)
    secrets: List[str] = field(default_factory=list)
    activation: Activation = Activation()
    code: Dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan back.

        Raises:
            ValueError: the document is of another schema or not a plan.
        """
        data: Dict[str, Any] = json.loads(text)
        if data.get("schema") != SCHEMA:
            raise ValueError(f"plan of schema {data.get('schema')!r}; this agent reads {SCHEMA}")
        jobs = [Job(**{**job, "stop": Stop(**job["stop"])}) for job in data.pop("jobs")]
        activation = Activation(**data.pop("activation"))
        return cls(jobs=jobs, activation=activation, **data)


def steps_of(plan: Plan) -> Tuple[str, ...]:
    """The steps of a plan in the order in which they start."""
    return tuple(dict.fromkeys(job.step for job in plan.jobs))
