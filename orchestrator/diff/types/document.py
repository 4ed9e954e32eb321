"""JSON, JSON lines and YAML: path by path, list items by key, numbers with tolerance."""

from __future__ import annotations

import json
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from orchestrator.diff.blob import Blob
from orchestrator.diff.lines.walk import Walk
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import Unreadable


def compare(pair: Pair) -> Record:
    """Compare two documents by their values; order of keys, spacing and comments do not count."""
    a, b = pair.read(lambda blob: _load(pair, blob))
    tolerance = Tolerance.of(pair.rule)
    walk = Walk(tolerance, pair.rule.keys, pair.limits.nodes, pair.limits.locations)
    changes = walk.compare(a, b)
    return pair.record(
        changes.status,
        metrics=changes.metrics,
        locations=changes.locations,
        more=changes.more,
        note="the bytes differ, the values do not" if changes.status == "equal" else "",
        tolerance=str(tolerance),
    )


def check(pair: Pair) -> None:
    _load(pair, pair.a)


def _load(pair: Pair, blob: Blob) -> Any:
    if pair.type == "yaml":
        return load_yaml(blob.read(pair.limits.yaml_bytes))
    return load_json(blob.read(pair.limits.document_bytes))


def load_json(content: bytes) -> Any:
    """One JSON document, or one a line as a list.

    Raises:
        Unreadable: it is neither, not UTF-8, nested too deeply, or has a key twice.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error
    try:
        return _json(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if error.msg != "Extra data" or len(lines) < 2:
            raise Unreadable(f"is not JSON: {error.msg} at line {error.lineno}") from error
        return [_json_line(number, line) for number, line in enumerate(lines, 1)]
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from error
    except RecursionError as error:
        raise Unreadable("is nested deeper than can be read") from error


def load_yaml(content: bytes) -> Any:
    """One YAML document, or several as a list; YAML 1.2, plain values only.

    Raises:
        Unreadable: it is not YAML, has a key twice, or asks for an object of a program.
    """
    try:
        text = content.decode("utf-8-sig")
        documents = list(YAML(typ="safe", pure=True).load_all(text))
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error
    except YAMLError as error:
        first = " ".join(str(error).split())[:160]
        raise Unreadable(f"is not YAML: {first}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        # ruamel.yaml lets some malformed scalars through to Python's own conversions.
        raise Unreadable(f"is not YAML: {error!r}") from error
    except RecursionError as error:
        raise Unreadable("is nested deeper than can be read") from error
    return documents[0] if len(documents) == 1 else documents


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_mapping)


def _json_line(number: int, line: str) -> Any:
    try:
        return _json(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not JSON lines: line {number}: {error}") from error


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key `{twice}` stands twice")
    return made
