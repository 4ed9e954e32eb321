"""An experiment without predictions measures, and decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.syntax.yaml import entries, scalar

RULE = Rule(
    name="no-expected-values",
    code="EXP002",
    title="An experiment has no ledger of expected values",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="without a prediction no result can miss, and a wrong number looks like any other",
    help="write the values you expect into a ledger and name it with `ledger:`, or say `kind: "
    "probe`",
    fix=Grade.DISPLAY,
)


def check_project(project: Project) -> Iterator[Hit]:
    for experiment in project.experiments:
        file = experiment.file
        if scalar(file.get("kind")) == "probe":
            continue
        ledger = file.get("ledger")
        if ledger is None:
            name = next(value for key, value in entries(file.root) if key.value == "experiment")
            yield file.hit(file.at(name), f"the experiment `{scalar(name)}` names no ledger")
            continue
        path = scalar(ledger) or ""
        beside = (project.root / file.path).parent / path
        if not beside.is_file():
            yield file.hit(
                file.at(ledger), f"the ledger `{path}` does not exist beside the experiment"
            )
