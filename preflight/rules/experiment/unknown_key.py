"""A key the model does not know is a setting that does nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.experiment.spec_problems import place, spec_problems
from preflight.source import unsafe
from preflight.syntax.yaml import YamlFile

RULE = Rule(
    name="unknown-key",
    code="EXP003",
    title="A key is not part of the file's model",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the setting would do nothing, so `orch` refuses the file",
    help="correct the key, or start it with `x-` if it is a note",
    needs=(b"experiment", b"ledger", b"hosts"),
    fix=Grade.UNSAFE,
)
MARK = "unknown key"
_NEAREST = re.compile(r"did you mean `([^`]+)`")


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    for problem in spec_problems(file):
        if MARK not in problem.what:
            continue
        span = place(file, problem)
        near = _NEAREST.search(problem.fix)
        ending = f"; {problem.fix}" if near else ""
        fix = None
        if near:
            fix = unsafe(f"write `{near[1]}`", Edit(span.start_byte, span.end_byte, near[1]))
        yield file.hit(span, f"{problem.what}{ending}", fix=fix)
