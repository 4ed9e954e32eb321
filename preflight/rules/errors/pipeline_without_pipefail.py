"""`python bench.py | tee log` succeeds whatever bench.py does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import Source, unsafe
from preflight.syntax.yaml import YamlFile, is_scalar, item, items, scalar

RULE = Rule(
    name="pipeline-without-pipefail",
    code="ERR005",
    title="A pipeline hides the failure of its first command",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="the step passes when the program crashes, because the exit status is that of the "
    "last command",
    help="write `set -o pipefail` before it, or drop the pipe: `orch` keeps the step's output in "
    "any case",
    needs=(b"|",),
    fix=Grade.UNSAFE,
)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PIPE = re.compile(r"(?<![|>])\|(?!\|)")
_TEE = re.compile(r"(?<![|>])\|&?\s*tee\b")
_HARMLESS_HEAD = re.compile(r"^\s*(?:sudo\s+)?(?:echo|printf|cat|yes|true|:)\b")
_INNER_SHELL = re.compile(
    r"\b(?:ba|da|z|k)?sh\s+(?:-\w+\s+)*-\w*c\s+(?P<quote>['\"])(?P<script>.*?)(?P=quote)", re.DOTALL
)
_SETS = re.compile(r"pipefail|PIPESTATUS|pipestatus")


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    """Steps run under `bash -eo pipefail`; only a shell started inside a step forgets it."""
    for step in items(file.get("steps")):
        run = item(step, "run")
        if run is None:
            continue
        if is_scalar(run):
            scripts = [m["script"] for m in _INNER_SHELL.finditer(run.value)]
            if re.search(r"set\s+\+o\s+pipefail", run.value):
                scripts.append(run.value.replace("pipefail", ""))
        else:
            scripts = _inner_script([scalar(child) or "" for child in items(run)])
        if any(_hides_failure(script) for script in scripts):
            yield file.hit(
                file.at(run),
                "the shell started here does not set pipefail, and its pipeline hides a failure",
            )


def _inner_script(words: list[str]) -> list[str]:
    """The script of `[bash, -c, script]`."""
    if (
        len(words) >= 3
        and re.fullmatch(r"(?:.*/)?(?:ba|da|z|k)?sh", words[0])
        and words[1].endswith("c")
    ):
        return [words[2]] if "pipefail" not in " ".join(words[1:2]) else []
    return []


def _hides_failure(script: str) -> bool:
    if _SETS.search(script):
        return False
    bare = _QUOTED.sub("", script)
    return bool(_PIPE.search(bare)) and not _HARMLESS_HEAD.match(bare)


def check_text(source: Source, config: Config) -> Iterator[Hit]:
    """Shell scripts: output through `tee`, in a script that never sets pipefail."""
    if not source.path.endswith((".sh", ".bash")):
        return
    numbers = range(1, len(source.line_starts) + 1)
    lines = {n: _COMMENT.sub("", _QUOTED.sub("", source.line_text(n))) for n in numbers}
    if any(_SETS.search(line) for line in lines.values()):
        return
    for number, line in lines.items():
        meant = "|| true" in line or "|| :" in line or "$(" in line
        if _TEE.search(line) and not _HARMLESS_HEAD.match(line) and not meant:
            yield source.hit(
                source.line_span(number),
                "the exit status of this pipeline is `tee`'s",
                fix=_set_pipefail(source),
            )


def _set_pipefail(source: Source) -> Fix | None:
    """Insert the setting after the shebang of a bash script."""
    first = source.line_text(1)
    if not (first.startswith("#!") and "bash" in first) or len(source.line_starts) < 2:
        return None
    place = source.line_starts[1]
    return unsafe("set pipefail", Edit(place, place, f"set -o pipefail{source.newline}"))
