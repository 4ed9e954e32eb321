"""What the supervisor asks of the host itself: its state before and after, and its GPUs.

Every question has its deadline; that one could not be answered is told, and never taken for an
answer.
"""

from __future__ import annotations

import json
import os
import traceback
from typing import Any, Mapping, Sequence

from orchestrator.agent import environment, jobenv, journal
from orchestrator.agent.layout import RunFolder, write_atomically
from orchestrator.agent.leases import NoGpu
from orchestrator.agent.telling import Teller

SNAPSHOT_DEADLINE_S = 20.0
_GPU_STATE_DEADLINE_S = 5.0
_GPU_LIST_DEADLINE_S = 10.0


def record(phase: str, folder: RunFolder, env: Mapping[str, str], teller: Teller) -> None:
    """Take a snapshot; that it failed is itself a fact, and stops nothing.

    Args:
        env: what the steps find, without the values of secrets.
    """
    name = f"environment.{phase}.json"
    try:
        found = environment.snapshot(
            phase,
            os.path.join(folder.raw, phase),
            tree=folder.path,
            python=[jobenv.python_of(env)],
            env=env,
            own_pids=[os.getpid()],
            deadline_s=SNAPSHOT_DEADLINE_S,
        )
        write_atomically(folder.inside(name), json.dumps(found, indent=1))
    except Exception as error:  # noqa: BLE001 - the note carries the traceback
        text = f"the environment snapshot `{phase}` failed: {error!r}"
        teller.note("error", text, traceback=traceback.format_exc())
        return
    teller.tell(journal.ENVIRONMENT, phase=phase, file=name, duration_s=found["duration_s"])


def list_gpus() -> Sequence[Mapping[str, Any]]:
    """The GPUs of this host.

    Raises:
        NoGpu: there are some, and nobody told of them in time.
    """
    try:
        return environment.visible_gpus(_GPU_LIST_DEADLINE_S)
    except environment.ProbeError as error:
        raise NoGpu(str(error)) from error


def gpu_state() -> str:
    """A few lines about the GPUs for the log of a step; empty without any."""
    return environment.gpu_state_text(_GPU_STATE_DEADLINE_S)


def unproven(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Which leased GPUs only look free: nobody can see their processes. Empty when all are."""
    blind = [str(gpu["index"]) for gpu in gpus if gpu["foreign_pids"] is None]
    if not blind:
        return ""
    return (
        f"nobody can tell who else uses GPU {', '.join(blind)}: its processes cannot be seen from "
        "here; it was taken because its memory is as good as empty"
    )
