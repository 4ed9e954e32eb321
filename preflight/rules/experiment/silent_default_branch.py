"""A dispatcher that turns a wrong value into a measurement of something else."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.rules.experiment.parameters import dispatchers_of, values_of

RULE = Rule(
    name="silent-default-branch",
    code="EXP005",
    title="A dispatcher takes every unknown value without complaint",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="a misspelt or missing mode runs the default branch, and the result carries the "
    "name of a kernel that "
    "never ran",
    help="raise in the default branch, or say `default` in a comment on it when any value is "
    "meant to land there",
    fix=Grade.DISPLAY,
)


def check_project(project: Project) -> Iterator[Hit]:
    seen: set[tuple[str, int]] = set()
    for experiment in project.experiments:
        used = {value.name for value in values_of(experiment)}
        for name, deciders in dispatchers_of(project, experiment).items():
            for decider in deciders if name in used else ():
                place = decider.default
                if place is None or decider.default_declared or (decider.path, place) in seen:
                    continue
                seen.add((decider.path, place))
                source = project.source(decider.path)
                yield source.hit(
                    source.line_span(source.line_of(place)),
                    f"every `{name}` but {', '.join(sorted(decider.values))} lands here without "
                    "complaint",
                )
