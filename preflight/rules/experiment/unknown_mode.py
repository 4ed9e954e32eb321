"""A mode the program does not have: the numbers are another branch's."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from preflight.finding import Edit, Fix, Grade, Hit, Profile, Related, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.rules.experiment.dispatch import Dispatcher
from preflight.rules.experiment.parameters import Value, dispatchers_of, values_of
from preflight.source import unsafe
from preflight.syntax.yaml import YamlFile

RULE = Rule(
    name="unknown-mode",
    code="EXP004",
    title="An experiment passes a value that the dispatcher does not know",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the program stops, or falls into its default branch and the numbers carry the "
    "wrong name",
    help="use a value the dispatcher lists, or add the branch to the code",
    fix=Grade.UNSAFE,
)


def check_project(project: Project) -> Iterator[Hit]:
    for experiment in project.experiments:
        known = dispatchers_of(project, experiment)
        for value in values_of(experiment):
            deciding = known.get(value.name, [])
            if not deciding or any(d.default_declared for d in deciding):
                continue
            accepted = frozenset().union(*(d.values for d in deciding))
            if value.value not in accepted:
                yield _hit(project, experiment.file, value, deciding[0], sorted(accepted))


def _hit(
    project: Project, file: YamlFile, value: Value, decider: Dispatcher, accepted: list[str]
) -> Hit:
    silent = decider.default is not None
    fate = "it falls into the default branch" if silent else "it is refused"
    offset = decider.default if decider.default is not None else decider.offset
    source = project.source(decider.path)
    words = ", ".join(f"`{word}`" for word in accepted)
    return file.hit(
        file.at(value.node),
        f"`{value.name}` is `{value.value}`, and the dispatcher knows {words}: {fate}",
        fix=_nearest(file, value, accepted),
        related=(
            Related(decider.path, source.line_of(offset), source.column_of(offset), "decided here"),
        ),
    )


def _nearest(file: YamlFile, value: Value, accepted: list[str]) -> Fix | None:
    span = file.at(value.node)
    near = difflib.get_close_matches(value.value, accepted, 1)
    if (
        not near
        or file.data[span.start_byte : span.end_byte].decode("utf-8", "replace") != value.value
    ):
        return None
    return unsafe(f"write `{near[0]}`", Edit(span.start_byte, span.end_byte, near[0]))
