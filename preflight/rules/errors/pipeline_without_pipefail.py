"""`python bench.py | tee log` succeeds whatever bench.py does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import unsafe
from preflight.syntax.yaml import Node, YamlFile, is_plain, item, items, scalar

RULE = Rule(
    name="pipeline-without-pipefail",
    code="ERR005",
    title="A step's pipeline hides the failure of its first command",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the step passes when the program crashes, because the exit status is that of the last command",
    help="begin with `set -o pipefail;`, or drop the pipe: the step's output is kept in any case",
    needs=(b"steps:",),
    fix=Grade.UNSAFE,
)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_PIPE = re.compile(r"(?<![|>])\|(?![|])")
_HARMLESS_HEAD = re.compile(r"^\s*(?:echo|printf|cat|yes|true)\b[^|;&]*\|")


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    for step in items(file.get("steps")):
        run = item(step, "run")
        command = scalar(run)
        if run is not None and command and _hides_failure(command) and not _sets_pipefail(step, command):
            start = file.at(run).start_byte
            simple = is_plain(run) and "\n" not in command
            yield file.hit(
                file.at(run),
                "the exit status of this pipeline is that of its last command",
                fix=unsafe("set pipefail", Edit(start, start, "set -o pipefail; ")) if simple else None,
            )


def _hides_failure(command: str) -> bool:
    bare = _QUOTED.sub("", command)
    return bool(_PIPE.search(bare)) and not (_HARMLESS_HEAD.match(bare) and bare.count("|") == 1)


def _sets_pipefail(step: Node, command: str) -> bool:
    shell = scalar(item(step, "shell")) or ""
    return "pipefail" in command or "pipefail" in shell or "PIPESTATUS" in command
