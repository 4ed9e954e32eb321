"""A value that YAML 1.1 and YAML 1.2 read differently."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import safe, unsafe
from preflight.syntax.yaml import YamlFile, YamlNode, is_plain, is_scalar, walk

RULE = Rule(
    name="ambiguous-scalar",
    code="EXP007",
    title="A value means different things to different YAML readers",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="`orch` reads YAML 1.2, most scripts read YAML 1.1: the two see different values "
    "of the same experiment",
    help="quote it, or write the number plainly",
    needs=(b"experiment", b"ledger", b"hosts"),
    fix=Grade.SAFE,
)
_WORD = re.compile(r"(?:yes|no|on|off|y|n)", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"[-+]?0\d+")
_SEXAGESIMAL = re.compile(r"[-+]?\d+(?::[0-5]\d)+")
_EXPONENT = re.compile(r"([-+]?)(\d+)(\.\d*)?[eE]([-+]?)(\d+)")
_YAML_1_1_FLOAT = re.compile(r"[-+]?\d[\d_]*\.[\d_]*(?:[eE][-+]\d+)?")


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    for node in walk(file.root):
        if not is_scalar(node) or not is_plain(node):  # type: ignore[arg-type]
            continue
        reading = _two_readings(str(node.value))
        if reading:
            yield file.hit(
                file.at(node), f"`{node.value}` is {reading}", fix=_fix(file, node, str(node.value))
            )


def _two_readings(value: str) -> str:
    if _WORD.fullmatch(value):
        return "text here and a truth value in YAML 1.1"
    if _LEADING_ZERO.fullmatch(value):
        return "decimal here and octal in YAML 1.1"
    if _SEXAGESIMAL.fullmatch(value):
        return "text here and a base-60 number in YAML 1.1"
    if _EXPONENT.fullmatch(value) and not _YAML_1_1_FLOAT.fullmatch(value):
        return "a number here and text in YAML 1.1"
    return ""


def _fix(file: YamlFile, node: YamlNode, value: str) -> Fix:
    """Text is quoted, which keeps its meaning; a number gets the form both versions read."""
    exponent = _EXPONENT.fullmatch(value)
    if exponent:
        sign, whole, fraction, power_sign, power = exponent.groups()
        plain = f"{sign}{whole}{fraction or '.0'}e{power_sign or '+'}{power}"
        return safe(f"write `{plain}`", file.replace(node, plain))
    span = file.at(node)
    edit = Edit(span.start_byte, span.end_byte, f'"{value}"')
    if _LEADING_ZERO.fullmatch(value):
        return unsafe("quote it", edit)
    return safe("quote it", edit)
