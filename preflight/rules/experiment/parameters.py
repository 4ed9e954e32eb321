"""Parameters an experiment passes to its programs, with all the values they take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.project import Experiment, Project
from preflight.rules.experiment.dispatch import Dispatcher, cuda_dispatchers, python_dispatchers
from preflight.syntax.yaml import YamlNode, entries, is_scalar, item, items

_FLAG = re.compile(r"--([A-Za-z][\w-]*)(?:=|\s+)(\{[a-z]\w*\}|[\w.+:/-]+)")
_HOLE = re.compile(r"\{([a-z]\w*)\}")


@dataclass(frozen=True)
class Value:
    """One value of one parameter, with the YAML node that says it."""

    name: str
    value: str
    node: YamlNode


def values_of(experiment: Experiment) -> Iterator[Value]:
    """Flag values of every command; a `{axis}` stands for all values of that axis."""
    for step in items(experiment.file.get("steps")):
        run = item(step, "run")
        axes = dict(_axes(step))
        if run is None or not is_scalar(run):
            continue
        for flag, word in _FLAG.findall(run.value):
            name = flag.replace("-", "_")
            hole = _HOLE.fullmatch(word)
            if hole is None:
                if "{" not in word:
                    yield Value(name, word, run)
                continue
            for node in axes.get(hole[1], ()):
                if "{" not in node.value:
                    yield Value(name, str(node.value), node)


def _axes(step: YamlNode) -> Iterator[tuple[str, list[YamlNode]]]:
    for key, value in entries(item(step, "matrix")):
        if key.value not in ("include", "exclude"):
            yield key.value, [child for child in items(value) if is_scalar(child)]


def dispatchers_of(project: Project, experiment: Experiment) -> dict[str, list[Dispatcher]]:
    """The dispatchers in the code an experiment runs, by parameter name."""
    found: dict[str, list[Dispatcher]] = {}
    for path in sorted(project.code_of(experiment)):
        if path.endswith((".py", ".pyi")):
            python = project.python(path)
            hits = python_dispatchers(python) if python else iter(())
        else:
            cuda = project.cuda(path)
            hits = cuda_dispatchers(cuda) if cuda else iter(())
        for dispatcher in hits:
            found.setdefault(dispatcher.name, []).append(dispatcher)
    return found
