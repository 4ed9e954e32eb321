"""A path that exists on one person's machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import Source
from preflight.syntax.python import PythonFile
from preflight.syntax.yaml import YamlFile, is_scalar, walk

RULE = Rule(
    name="user-path",
    code="EXP008",
    title="A path of one person's machine is written into the code",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="on any other host the step fails, or reads an old file of the same name",
    help="take it from a parameter or an environment variable, or use a path relative to the tree",
    needs=(b"/home/", b"/root/", b"/mnt/", b"/Users/", b":\\", b":/"),
    fix=Grade.DISPLAY,
)
_PATH = re.compile(
    r"(?:^|(?<=[\s'\"=:,(\[]))(?P<path>/(?:home|Users)/[A-Za-z][\w.-]*/[\w.@+-][\w./@+-]*|/root/[\w.@+-][\w./@+-]*"
    r"|/mnt/[\w.-]+/[\w./@+-]+|[A-Za-z]:(?:\\\\?|/)(?:Users|home|work|src|dev|projects)(?:\\\\?|/)[\w.\\/-]+)"
)
_FROM_ENVIRONMENT = re.compile(
    r"environ|getenv|\$\{\w+:[-=]|default=|os\.path\.expanduser|argparse"
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "test" in file.roles:
        return
    for node in file.nodes(ast.Constant):
        if not isinstance(node.value, str) or isinstance(file.parent(node), ast.Expr):
            continue
        match = _PATH.search(node.value)
        if (
            match
            and "\n" not in node.value
            and not _is_excused(file, node.lineno, match["path"], config)
        ):
            yield file.hit(file.at(node), f"`{match['path']}` is a path of one machine")


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    for node in walk(file.root):
        if is_scalar(node):
            span = file.at(node)
            match = _PATH.search(str(node.value))
            if match and not _is_excused(file, span.line, match["path"], config):
                yield file.hit(span, f"`{match['path']}` is a path of one machine")


def check_text(source: Source, config: Config) -> Iterator[Hit]:
    """Shell scripts, line by line, comments left out."""
    if not source.path.endswith((".sh", ".bash")) or "test" in source.roles:
        return
    for number in range(1, len(source.line_starts) + 1):
        line = source.line_text(number)
        match = None if line.lstrip().startswith("#") else _PATH.search(line)
        if match and not _is_excused(source, number, match["path"], config):
            yield source.hit(
                source.line_span(number), f"`{match['path']}` is a path of one machine"
            )


def _is_excused(source: Source, line: int, path: str, config: Config) -> bool:
    """An overridable default, or a path the configuration names as one of the container."""
    if path.startswith(config.container_paths):
        return True
    return bool(_FROM_ENVIRONMENT.search(source.line_text(line)))
