"""What all models share: frozen, no unknown keys, every pydantic error as `file:line:col`."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Union

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.errors import Problem, SpecError
from orchestrator.spec.document import Document

M = TypeVar("M", bound="Model")

# What a person wrote is named by its YAML type, not by Python's or pydantic's.
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "list_type": "a list, such as `[a, b]`",
    "tuple_type": "a list, such as `[a, b]`",
    "dict_type": "a mapping of `key: value`",
    "model_type": "a mapping of `key: value`",
    "model_attributes_type": "a mapping of `key: value`",
    "finite_number": "a finite number",
}
_MOST_COMPARED = 1000


class Model(BaseModel):
    """What a person writes: immutable, and without room for a misspelt key."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def validate(model: type[M], document: Document) -> M:
    """The model that a document describes.

    Raises:
        SpecError: with every mistake in the file, in the order of its lines.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems = [_problem(model, document, d) for d in details if not _is_echo(d)]
        raise SpecError(in_file_order(problems)) from error


def _is_echo(detail: ErrorDetails) -> bool:
    """Whether a list is called too short only because its items were refused."""
    if detail["type"] != "too_short":
        return False
    return bool(len(detail["input"]) >= detail.get("ctx", {}).get("min_length", 0))


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by line, each mistake told once."""
    unique = {str(problem): problem for problem in problems}
    return sorted(unique.values(), key=lambda problem: (problem.line, problem.column))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word a person most likely meant, or an empty string; of thousands, none is."""
    words = list(known)
    if len(words) > _MOST_COMPARED:
        return ""
    matches = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return matches[0] if matches else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: `did you mean ...`, or nothing."""
    match = nearest(word, known)
    return f"did you mean `{match}`?" if match else ""


def _problem(model: type[Model], document: Document, detail: ErrorDetails) -> Problem:
    path = _document_path(document, detail["loc"])
    name = _shown(path)
    kind = detail["type"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        where = f" in `{_shown(path[:-1])}`" if path[:-1] else ""
        expected = "one of " + ", ".join(f"`{key}`" for key in sorted(known)) if known else ""
        fix = did_you_mean(str(path[-1]), known) or "remove it, or start it with `x-`"
        return document.problem(
            path, f"unknown key `{path[-1]}`{where}", expected, fix, of_key=True
        )
    if kind == "missing":
        parent = f" in `{_shown(path[:-1])}`" if path[:-1] else ""
        return document.problem(
            path[:-1], f"the key `{path[-1]}` is missing{parent}", f"`{path[-1]}: ...`"
        )
    if kind == "orch":
        what = f"{name}: {context['what']}" if name else str(context["what"])
        return document.problem(path, what, str(context["expected"]), str(context["fix"]))
    if kind in ("literal_error", "enum"):
        choices = str(context["expected"])
        words = [word.strip(" '") for word in choices.replace(" or ", ",").split(",")]
        value = str(detail["input"])
        listed = ", ".join(f"`{word}`" for word in words)
        return document.problem(
            path, f"{name} is `{value}`", f"one of {listed}", did_you_mean(value, words)
        )
    if kind == "string_too_short":
        expected = f"at least {context['min_length']} characters"
        return document.problem(path, f"{name} is too short", expected)
    if kind == "too_short":
        return document.problem(path, f"{name} is empty or too short", _bounds(context))
    expected = _EXPECTED.get(kind) or _bounds(context) or detail["msg"].lower()
    return document.problem(path, f"{name} is `{_short(detail['input'])}`", expected)


def _document_path(document: Document, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Pydantic's location without the names of union members, which no file contains."""
    path: tuple[int | str, ...] = ()
    node: Any = document.data
    for index, part in enumerate(loc):
        in_list = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if in_list or (isinstance(node, dict) and part in node):
            node = node[part]
        elif index == len(loc) - 1 and isinstance(node, dict) and isinstance(part, str):
            node = None
        else:
            continue
        path = (*path, part)
    return path


def _bounds(context: Mapping[str, Any]) -> str:
    words = {
        "ge": "at least {}",
        "gt": "more than {}",
        "le": "at most {}",
        "lt": "less than {}",
        "min_length": "at least {} of them",
        "max_length": "at most {} of them",
        "pattern": "text that matches `{}`",
    }
    return " and ".join(text.format(context[key]) for key, text in words.items() if key in context)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shown(path: tuple[int | str, ...]) -> str:
    """A path as a person reads it: `steps[0].run`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _keys_at(model: type[Model], path: tuple[int | str, ...]) -> set[str]:
    """The keys that the model at `path` knows; empty where the file is free to use any."""
    here: Any = model
    for part in path:
        here = _child(here, part)
    owner = _model_in(here)
    return set(owner.model_fields) if owner else set()


def _child(annotation: Any, part: int | str) -> Any:
    owner = _model_in(annotation)
    if owner is not None and isinstance(part, str):
        field = owner.model_fields.get(part)
        return field.annotation if field else None
    for option in _options(annotation):
        arguments = typing.get_args(option)
        if typing.get_origin(option) in (list, tuple) and arguments:
            return arguments[0]
        if typing.get_origin(option) in (dict, Mapping) and len(arguments) == 2:
            return arguments[1]
    return None


def _model_in(annotation: Any) -> type[Model] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, Model):
            return option
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _options(typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return tuple(o for option in typing.get_args(annotation) for o in _options(option))
    return (annotation,)
