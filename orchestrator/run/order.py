"""What is ordered of a host: the plan, the values of secrets, and the predictions as sealed."""

from __future__ import annotations

import hashlib
import os
import secrets as random
import sys
import time
from dataclasses import replace
from pathlib import Path

from orchestrator.agent.plan import Activation, Plan
from orchestrator.errors import InputError
from orchestrator.source.snapshot import Snapshot
from orchestrator.spec.expand import Prepared
from orchestrator.spec.hosts import Host
from orchestrator.store.record import Sealed
from orchestrator.store.rundir import RunDir

MIN_SECRET_LENGTH = 6


def new_run_id(experiment: str) -> str:
    """`20261129-130102-exp27-3f9a`: sorts by time, names the experiment, never repeats."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{stamp}-{experiment}-{random.token_hex(2)}"


def make_plan(run_id: str, prepared: Prepared, host: Host, taken: Snapshot) -> Plan:
    """The plan of one run."""
    experiment = prepared.experiment
    return Plan(
        run_id=run_id,
        experiment=experiment.experiment,
        tree=taken.tree,
        object_format=taken.repository.object_format,
        caches=experiment.caches,
        jobs=list(prepared.jobs),
        needs={step: list(needs) for step, needs in prepared.needs.items()},
        env=dict(experiment.env),
        secrets=list(experiment.secrets),
        activation=_activation(host),
        code=taken.code.as_json(),
    )


def _activation(host: Host) -> Activation:
    """What the host declares; on this machine, the environment that `orch` itself runs in."""
    declared = Activation(
        python=host.python,
        venv=host.venv,
        conda=host.conda,
        modules=list(host.modules),
        setup=host.setup,
        env=dict(host.env),
    )
    if host.carrier != "local" or host.python or host.venv or host.conda:
        return declared
    in_venv = sys.prefix != sys.base_prefix
    return replace(
        declared,
        venv=sys.prefix if in_venv else None,
        python=None if in_venv else sys.executable,
    )


def secrets_of(names: tuple[str, ...]) -> dict[str, str]:
    """Values of the secret variables, from this environment.

    Raises:
        InputError: one is not set, or so short that it could not be masked in a log.
    """
    found = {}
    for name in names:
        value = os.environ.get(name)
        if value is None:
            raise InputError(
                f"the secret `{name}` is not set", fix=f"export {name}=... before `orch run`"
            )
        if len(value) < MIN_SECRET_LENGTH:
            raise InputError(
                f"the secret `{name}` has {len(value)} characters and could not be masked in logs",
                expected=f"at least {MIN_SECRET_LENGTH} characters",
            )
        found[name] = value
    return found


def seal_ledger(
    prepared: Prepared, folder: RunDir, project: Path, taken: Snapshot
) -> Sealed | None:
    """Copy the ledger into the run, with its hash and whether git holds it as it is."""
    path = prepared.ledger_path
    if path is None:
        return None
    content = path.read_bytes()
    folder.ledger.write_bytes(content)
    name = relative(path, project)
    committed = taken.repository.git.run(
        "diff", "--quiet", "HEAD", "--", name, check=False
    ).returncode
    tracked = taken.repository.git.names("ls-files", "-z", "--", name)
    return Sealed(
        file=name,
        sha256=hashlib.sha256(content).hexdigest(),
        committed=committed == 0 and bool(tracked),
        revision=taken.code.revision,
    )


def relative(path: Path, top: Path) -> str:
    try:
        return path.resolve().relative_to(top.resolve()).as_posix()
    except ValueError:
        return str(path.resolve())
