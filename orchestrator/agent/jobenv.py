"""What a job finds around it: the variables of the run, and its own on top of them."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from orchestrator.agent import leases, processes
from orchestrator.agent.evidence import stack_signal
from orchestrator.agent.layout import RunFolder
from orchestrator.agent.offered import handed_on, taken_back
from orchestrator.agent.plan import Job, Plan

# Of the shell that started the agent; a step starts from a clean state.
_NOT_INHERITED = ("PWD", "OLDPWD", "SHLVL", "_")
# Of the step of another run, when the agent was started by one.
_OF_ANOTHER_STEP = ("ORCH_GUARDS", "ORCH_GPU_INDICES", "ORCH_POINT_")


def inherited() -> dict[str, str]:
    """What the agent itself was started with, as far as a step should see it.

    Started by a step of another run, it does not take over that step's GPUs, which are taken, but
    chooses among those that the other run was left.
    """
    return {
        name: value
        for name, value in taken_back(os.environ).items()
        if name not in _NOT_INHERITED and not name.startswith(_OF_ANOTHER_STEP)
    }


def of_run(
    activated: Mapping[str, str], caches: Mapping[str, str], plan: Plan, folder: RunFolder
) -> dict[str, str]:
    """The variables that all jobs of a run share; secrets are not among them.

    Our modules come first on PYTHONPATH, so that Python tells where it hangs.
    """
    env = {**activated, **caches, **plan.env}
    behind = env.get("PYTHONPATH", "")
    env.update(
        PYTHONPATH=folder.payload + (os.pathsep + behind if behind else ""),
        PYTHONUNBUFFERED="1",
        PYTHONFAULTHANDLER="1",
        ORCH_RUN_ID=plan.run_id,
        ORCH_STACK_SIGNAL=str(stack_signal() or ""),
    )
    return env


def of_job(
    shared: Mapping[str, str],
    job: Job,
    mark: str,
    folder: str,
    gpus: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """The variables of one job.

    Args:
        mark: names the job in the environment of everything it starts.
        folder: the job's directory.
        gpus: those that were leased for it.
    """
    env = {**shared, **job.env}
    env.update(
        {
            processes.MARK: mark,
            "ORCH_STEP": job.step,
            "ORCH_POINT": job.id,
            "ORCH_ROUND": str(job.round),
            "ORCH_RESULTS": os.path.join(folder, "results.jsonl"),
            "ORCH_OUT": os.path.join(folder, "out"),
        }
    )
    if job.guards:
        env["ORCH_GUARDS"] = ",".join(job.guards)
    if gpus:
        env.update(**handed_on(env), **leases.variables(gpus, env), **leases.indices(gpus))
    return env


def python_of(env: Mapping[str, str]) -> str:
    """The interpreter that `python3` means in a step."""
    return env.get("ORCH_PYTHON", "python3")
