"""An experiment asks for what its host does not have."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Host
from preflight.finding import Hit, Profile, Severity
from preflight.project import Experiment, Project
from preflight.rule import Rule
from preflight.syntax.yaml import YamlFile, entries, item, items, scalar

RULE = Rule(
    name="host-mismatch",
    code="EXP012",
    title="An experiment asks for GPUs, an architecture or an interconnect its host does not have",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the step waits for GPUs that never come free, or every prediction ends as not "
    "comparable",
    help="choose another host, or correct the host's `x-gpu` block or `[tool.preflight.hosts]`",
)
_FACTS = {
    "arch": "arch",
    "gpu.arch": "arch",
    "interconnect": "interconnect",
    "gpu.interconnect": "interconnect",
}


def check_project(project: Project) -> Iterator[Hit]:
    for experiment in project.experiments:
        name = experiment.host_name
        host = project.config.hosts.get(name) if name and name != "any" else None
        if host is not None:
            yield from _gpu_hits(experiment.file, host)
            yield from _condition_hits(project, experiment, host)


def _gpu_hits(file: YamlFile, host: Host) -> Iterator[Hit]:
    for step in items(file.get("steps")):
        node = item(step, "gpus")
        count = scalar(node) or ""
        if (
            node is not None
            and count.isdigit()
            and host.gpus is not None
            and int(count) > host.gpus
        ):
            yield file.hit(
                file.at(node), f"the step asks for {count} GPUs, host `{host.name}` has {host.gpus}"
            )


def _condition_hits(project: Project, experiment: Experiment, host: Host) -> Iterator[Hit]:
    ledger = scalar(experiment.file.get("ledger"))
    path = str((project.root / experiment.file.path).parent.joinpath(ledger or "").resolve())
    relative = path.removeprefix(f"{project.root}/")
    file = project.yaml(relative) if ledger and relative in project.targets else None
    if file is None:
        return
    for entry in items(file.get("entries")):
        for key, value in entries(item(entry, "requires")):
            fact = getattr(host, _FACTS[key.value]) if key.value in _FACTS else None
            wanted = scalar(value)
            if fact is not None and wanted is not None and wanted.lower() != fact.lower():
                yield file.hit(
                    file.at(value),
                    f"the entry requires `{key.value}: {wanted}`, host `{host.name}` has `{fact}`",
                )
