"""Everything else the model of an experiment, ledger or hosts file refuses."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.experiment.spec_problems import place, spec_problems
from preflight.rules.experiment.unknown_key import MARK
from preflight.syntax.yaml import YamlFile

RULE = Rule(
    name="invalid-spec",
    code="EXP013",
    title="A file does not satisfy its model",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="`orch run` refuses the file",
    help="write what the model expects",
    needs=(b"experiment", b"ledger", b"hosts"),
)
# Problems that a rule of their own reports, with a fix.
_ELSEWHERE = (
    MARK,
    "has no deadline",
    "no step is named",
    "steps need each other",
    "a value without a tolerance",
)


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    for problem in spec_problems(file):
        if any(words in problem.what for words in _ELSEWHERE):
            continue
        expected = f", expected {problem.expected}" if problem.expected else ""
        yield file.hit(place(file, problem), f"{problem.what}{expected}", help=problem.fix)
