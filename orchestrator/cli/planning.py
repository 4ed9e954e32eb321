"""Commands that read files and touch no host."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path

from orchestrator.errors import InputError
from orchestrator.spec.expand import Prepared, prepare
from orchestrator.spec.model import did_you_mean
from orchestrator.spec.quantity import show_duration
from orchestrator.spec.schema import FILES, schema_text


def plan(experiment: Path, json: bool) -> None:
    prepared = prepare(experiment)
    if json:
        print(json_text.dumps(_as_json(prepared), indent=1, ensure_ascii=False))
        return
    _print_jobs(prepared)
    entries = len(prepared.ledger.entries) if prepared.ledger else 0
    jobs = len(prepared.jobs)
    print(
        f"\n{jobs} {'job' if jobs == 1 else 'jobs'}, {entries} predictions; worst-case wall time "
        f"{show_duration(prepared.worst_case_s)}"
    )


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
        print(f"      {first}{' ...' if first != command.strip() else ''}")


def _as_json(prepared: Prepared) -> dict[str, object]:
    return {
        "experiment": prepared.experiment.experiment,
        "worst_case_s": prepared.worst_case_s,
        "needs": {step: list(needs) for step, needs in prepared.needs.items()},
        "jobs": [asdict(job) for job in prepared.jobs],
        "predictions": len(prepared.ledger.entries) if prepared.ledger else 0,
    }
