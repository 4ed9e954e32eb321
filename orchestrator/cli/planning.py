"""Commands that read files and touch no host."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import asdict, replace
from pathlib import Path

from orchestrator.cli.places import project_of
from orchestrator.errors import InputError
from orchestrator.report.words import harmless
from orchestrator.spec.expand import Prepared, prepare
from orchestrator.spec.hosts import hosts_files, load_hosts
from orchestrator.spec.model import did_you_mean
from orchestrator.spec.quantity import show_duration
from orchestrator.spec.schema import FILES, schema_text


def plan(experiment: Path, json: bool) -> None:
    prepared = prepare(experiment)
    carrier = _carrier(prepared)
    if json:
        print(json_text.dumps(_as_json(prepared, carrier), indent=1, ensure_ascii=False))
        return
    _print_jobs(prepared)
    entries = len(prepared.ledger.entries) if prepared.ledger else 0
    jobs = len(prepared.jobs)
    print(
        f"\n{jobs} {'job' if jobs == 1 else 'jobs'}, {entries} predictions; worst-case wall time "
        f"{show_duration(prepared.worst_case_s)}; {_where(prepared.experiment.host, carrier)}"
    )


def _carrier(prepared: Prepared) -> str | None:
    """How the experiment's host is reached, None if no file here names it.

    A run would refuse that. A plan only warns: whoever looks at it, CI for one, may have no
    hosts.yaml. One that is there and wrong is an error for both.
    """
    name = prepared.experiment.host
    files = hosts_files(project_of(prepared.path))
    known = load_hosts(files)
    if name in known:
        return known[name].carrier
    problem = prepared.document.problem(("host",), f"no host is named `{name}`")
    fix = did_you_mean(name, known) or "add it to hosts.yaml, or name one with `orch run --host`"
    print(f"warning: {replace(problem, fix=fix)}", file=sys.stderr)
    return None


def schema(kind: str | None, output: Path | None) -> None:
    if kind is not None and kind not in FILES:
        raise InputError(
            f"no kind of file is named `{kind}`",
            expected=", ".join(FILES),
            fix=did_you_mean(kind, FILES),
        )
    kinds = [kind] if kind else list(FILES)
    if output is None:
        for one in kinds:
            print(schema_text(one), end="")
        return
    output.mkdir(parents=True, exist_ok=True)
    for one in kinds:
        path = output / f"{one}.schema.json"
        path.write_text(schema_text(one), "utf-8", newline="\n")
        print(path)


def _print_jobs(prepared: Prepared) -> None:
    step = ""
    for job in prepared.jobs:
        if job.step != step:
            step = job.step
            needs = prepared.needs[step]
            print(f"{step}{'  after ' + ', '.join(needs) if needs else ''}")
        gpus = f", {job.gpus} GPUs" if job.gpus else ""
        print(f"  {job.id}  (deadline {show_duration(job.timeout_s)}{gpus})")
        command = job.run if isinstance(job.run, str) else " ".join(job.run)
        first = command.strip().splitlines()[0]
        print(f"      {harmless(first)}{' ...' if first != command.strip() else ''}")


def _where(host: str, carrier: str | None) -> str:
    if carrier == "local":
        return "on this machine"
    return f"on {host} ({carrier})" if carrier else f"on {host}"


def _as_json(prepared: Prepared, carrier: str | None) -> dict[str, object]:
    return {
        "experiment": prepared.experiment.experiment,
        "host": prepared.experiment.host,
        "carrier": carrier,
        "worst_case_s": prepared.worst_case_s,
        "needs": {step: list(needs) for step, needs in prepared.needs.items()},
        "jobs": [asdict(job) for job in prepared.jobs],
        "predictions": len(prepared.ledger.entries) if prepared.ledger else 0,
    }
