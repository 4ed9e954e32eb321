"""JSON Schema of the three kinds of file, for editors: completion and checks while typing."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections.abc import Iterator
from typing import Any

from orchestrator.spec.experiment import Experiment
from orchestrator.spec.hosts import Hosts
from orchestrator.spec.ledger import Ledger
from orchestrator.spec.model import Model

FILES: dict[str, type[Model]] = {"experiment": Experiment, "hosts": Hosts, "ledger": Ledger}


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one kind of file: experiment, hosts or ledger."""
    body = FILES[kind].model_json_schema()
    described = {model.__name__: model for model in _below(Model)}
    for part in (body, *body.get("$defs", {}).values()):
        _describe(part, described[part["title"]])
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **_lenient(body)}


def schema_text(kind: str) -> str:
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def _below(model: type[Model]) -> Iterator[type[Model]]:
    for child in model.__subclasses__():
        yield child
        yield from _below(child)


def _describe(part: dict[str, Any], model: type[Model]) -> None:
    """Put the docstring of each field beside it.

    pydantic can do that too, but reads the sources for it whenever a model is imported.
    """
    for base in reversed(model.__mro__[: model.__mro__.index(Model)]):
        for name, text in _field_docstrings(base):
            facts = model.model_fields[name]
            if facts.description is None:
                place = facts.alias or name
                told = {**part["properties"][place], "description": text}
                part["properties"][place] = dict(sorted(told.items()))


def _field_docstrings(model: type) -> Iterator[tuple[str, str]]:
    (body,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(body, ast.ClassDef)
    for field, text in itertools.pairwise(body.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                yield name, inspect.cleandoc(words)


def _lenient(node: Any) -> Any:
    """Let `x-` keys stand wherever unknown keys are refused, as the loader does."""
    if isinstance(node, dict):
        changed = {key: _lenient(value) for key, value in node.items()}
        if changed.get("additionalProperties") is False:
            changed["patternProperties"] = {"^x-": {}}
        return changed
    if isinstance(node, list):
        return [_lenient(item) for item in node]
    return node
