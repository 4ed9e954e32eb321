"""Problems the experiment's own model reports, as spans of the linted file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.finding import Span
from preflight.syntax.yaml import YamlFile

if TYPE_CHECKING:
    from orchestrator.errors import Problem

_LAST: dict[int, tuple[YamlFile, list[Problem]]] = {}


def spec_problems(file: YamlFile) -> list[Problem]:
    """What the model of `orchestrator.spec` says about an experiment, ledger or hosts file.

    The model is the only definition of these files. Each file is validated once for all rules.
    """
    known = _LAST.get(id(file))
    if known is None or known[0] is not file:
        _LAST.clear()
        _LAST[id(file)] = (file, _validate(file))
    return _LAST[id(file)][1]


def _validate(file: YamlFile) -> list[Problem]:
    from orchestrator.errors import SpecError
    from orchestrator.spec.check import experiment_problems
    from orchestrator.spec.document import parse
    from orchestrator.spec.experiment import Experiment
    from orchestrator.spec.hosts import Hosts
    from orchestrator.spec.ledger import read_ledger
    from orchestrator.spec.model import validate

    keys = file.top_level
    try:
        document = parse(file.text, file.path)
        if "steps" in keys or "experiment" in keys:
            return list(experiment_problems(validate(Experiment, document), document))
        if "entries" in keys:
            read_ledger(document)
        elif "hosts" in keys and file.path.endswith(("hosts.yaml", "hosts.yml")):
            validate(Hosts, document)
    except SpecError as error:
        return list(error.problems)
    return []


def place(file: YamlFile, problem: Problem) -> Span:
    """From the problem's line and column to the end of the word there."""
    line = min(max(problem.line, 1), len(file.line_starts))
    text = file.line_text(line)
    column = min(max(problem.column, 1), len(text) + 1)
    start = file.line_starts[line - 1] + len(text[: column - 1].encode())
    rest = text[column - 1 :]
    word = rest.split(":")[0] if ":" in rest else rest
    return file.span(start, start + len(word.rstrip().encode()))
