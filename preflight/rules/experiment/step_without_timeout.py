"""A step without a deadline: one hang and the whole round is lost."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import unsafe
from preflight.syntax.yaml import YamlFile, entries, item, items, scalar

RULE = Rule(
    name="step-without-timeout",
    code="EXP001",
    title="A step has no deadline",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="a protocol bug shows as a spinning kernel, and without a deadline nothing comes "
    "home",
    help="set `timeout:` on the step, or once at the top of the file",
    needs=(b"steps",),
    fix=Grade.UNSAFE,
)
_INSERTED = "timeout: 10m"


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    if file.get("timeout") is not None:
        return
    for step in items(file.get("steps")):
        keys = list(entries(step))
        if not keys or item(step, "timeout") is not None:
            continue
        name = scalar(item(step, "id")) or "(no id)"
        key, value = keys[0]
        flow = file.data[file.at(step).start_byte :].startswith(b"{")
        edit = file.insert_before(key, _INSERTED)
        yield file.hit(
            file.at(value),
            f"the step `{name}` has no deadline of its own and inherits none",
            fix=None
            if flow
            else unsafe("give it ten minutes", Edit(edit.start_byte, edit.end_byte, edit.text)),
        )
