"""A protocol that was only tested with messages on time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.yaml import YamlFile, item, items, plain_value, scalar

RULE = Rule(
    name="arrival-jitter-missing",
    code="EXP010",
    title="A dispatch or combine kernel runs on several GPUs without a delay-injection step",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="arrival order equals consumption order on a quiet host, and the race shows first "
    "in production",
    help="add a step that delays ranks or messages at random (its command or `env` says `delay` "
    "or `jitter`), and compare "
    "the result bit for bit",
    needs=(b"steps",),
    fix=Grade.DISPLAY,
    pitfalls=(5,),
)
_PROTOCOL = re.compile(
    r"dispatch|combine|all2all|all_?to_?all|all_?gather|reduce_?scatter|all_?reduce", re.IGNORECASE
)
_JITTER = re.compile(r"jitter|delay|inject|stall|skew", re.IGNORECASE)


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    steps = list(items(file.get("steps")))
    words = [
        str(plain_value(item(step, "run"))) + str(plain_value(item(step, "env"))) for step in steps
    ]
    if any(_JITTER.search(text) for text in words):
        return
    for step in steps:
        gpus = scalar(item(step, "gpus")) or "0"
        run = item(step, "run")
        match = _PROTOCOL.search(str(plain_value(run)))
        if run is not None and match and gpus.isdigit() and int(gpus) > 1:
            yield file.hit(
                file.at(run), f"`{match.group()}` runs on {gpus} GPUs, and no step injects a delay"
            )
            return
