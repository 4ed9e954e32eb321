"""A YAML file with a line and a column for everything in it.

ruamel.yaml reads YAML 1.2 (`on: yes` stays text, a duplicate key is an error) and knows where each
key and value began; this module turns its round-trip nodes into plain Python values beside a map
from a path inside the document to its place in the file.
"""

from __future__ import annotations

import datetime
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarbool import ScalarBoolean
from ruamel.yaml.scalarfloat import ScalarFloat
from ruamel.yaml.scalarint import ScalarInt

from orchestrator.errors import Problem, SpecError
from orchestrator.spec.bounds import MAX_BYTES, BeyondBounds
from orchestrator.spec.reader import reader

NodePath = tuple[str | int, ...]
Place = tuple[int, int]

_UNUSABLE = re.compile(r"[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """The values of one YAML file and where each of them stands.

    `values` and `keys` map a path such as ("steps", 0, "run") to a line and column, both from 1.
    """

    file: str
    data: Any
    values: Mapping[NodePath, Place]
    keys: Mapping[NodePath, Place]

    def place(self, path: NodePath, *, of_key: bool = False) -> Place:
        """The place of `path`, or of the nearest thing around it that the file has."""
        first, second = (self.keys, self.values) if of_key else (self.values, self.keys)
        while path and path not in first and path not in second:
            path = path[:-1]
        return first.get(path) or second.get(path) or (1, 1)

    def problem(
        self, path: NodePath, what: str, expected: str = "", fix: str = "", *, of_key: bool = False
    ) -> Problem:
        line, column = self.place(path, of_key=of_key)
        return Problem(what, expected, fix, self.file, line, column)


def load(path: Path, *, shown_as: str = "") -> Document:
    """Read one YAML file.

    Raises:
        SpecError: the file is missing, unreadable, no plain file, too large, not UTF-8, not YAML,
            or not a mapping.
    """
    shown = shown_as or str(path)
    content = _content(path, shown)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problem = Problem("the file is not UTF-8", "UTF-8 text", "save it as UTF-8", shown, line, 1)
        raise SpecError([problem]) from error
    return parse(text, shown)


def _content(path: Path, shown: str) -> bytes:
    """The bytes of a file; never of a pipe, which would be waited for, nor of an endless device."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            problem = Problem("this is no file", "a plain file", "name the YAML file", shown)
            raise SpecError([problem])
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError([Problem(f"cannot read the file: {reason}", file=shown)]) from error
    if len(content) > MAX_BYTES:
        most = f"at most {MAX_BYTES >> 20} MiB"
        problem = Problem("the file is too large", most, "split it, or name another", shown, 1, 1)
        raise SpecError([problem])
    return content


def parse(text: str, file: str) -> Document:
    """Like `load`, for text that is already in memory."""
    try:
        node = reader().load(text)
    except MarkedYAMLError as error:
        raise SpecError([_syntax_problem(error, file)]) from error
    except ReaderError as error:
        raise SpecError([_forbidden_character(error, text, file)]) from error
    except YAMLError as error:
        raise SpecError([Problem(f"not YAML: {error}", file=file, line=1, column=1)]) from error
    if not isinstance(node, CommentedMap):
        what = "the file is empty" if node is None else "the file does not hold a mapping"
        raise SpecError([Problem(what, "`key: value` lines at the top level", "", file, 1, 1)])
    values: dict[NodePath, Place] = {}
    keys: dict[NodePath, Place] = {}
    document = Document(file, _plain(node, (), values, keys), values, keys)
    if unusable := list(_unusable(document)):
        raise SpecError(unusable)
    return document


def _unusable(document: Document) -> Iterator[Problem]:
    """Texts with NUL or half of a surrogate pair, which only an escape can bring into YAML."""
    for path, text, of_key in _texts(document.data, ()):
        if found := _UNUSABLE.search(text):
            what = "a zero byte" if found[0] == "\0" else f"half a character (U+{ord(found[0]):X})"
            yield document.problem(
                path,
                f"the text holds {what}, which no program can be given",
                "text without one",
                of_key=of_key,
            )


def _texts(data: Any, path: NodePath) -> Iterator[tuple[NodePath, str, bool]]:
    """Every text with its path, and whether it is a key."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, key), key, True
            yield from _texts(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts(value, (*path, index))
    elif isinstance(data, str):
        yield path, data, False


def _forbidden_character(error: ReaderError, text: str, file: str) -> Problem:
    before = text[: error.position]
    return Problem(
        f"the character U+{ord(text[error.position]):04X} may not stand in YAML",
        "text without control characters",
        "remove it, or write it as an escape between double quotes",
        file,
        before.count("\n") + 1,
        len(before) - (before.rfind("\n") + 1) + 1,
    )


def _syntax_problem(error: MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if isinstance(error, BeyondBounds):
        return Problem(error.problem, error.expected, error.fix, file, line, column)
    what = " ".join(str(error.problem or error.context or "not YAML").split())
    if "found duplicate key" in what:
        key = what.split('"')[1] if what.count('"') >= 2 else "?"
        return Problem(
            f"the key `{key}` stands twice",
            "each key once",
            "remove one of the two",
            file,
            line,
            column,
        )
    fix = ""
    if "found character '\\t'" in what or "\\t" in what:
        fix = "indent with blanks, not tabs"
    elif "mapping values are not allowed" in what:
        fix = "quote the value, or check the indentation of this line"
    return Problem(f"not YAML: {what}", "", fix, file, line, column)


def _plain(
    node: Any, path: NodePath, values: dict[NodePath, Place], keys: dict[NodePath, Place]
) -> Any:
    if isinstance(node, CommentedMap):
        return _plain_map(node, path, values, keys)
    if isinstance(node, CommentedSeq):
        # A tagged list has no places of its own; what is in it is then placed at its key.
        for index in range(len(node) if node.lc.data else 0):
            place = node.lc.item(index)
            values[(*path, index)] = (place[0] + 1, place[1] + 1)
        return [_plain(item, (*path, index), values, keys) for index, item in enumerate(node)]
    return _scalar(node)


def _plain_map(
    node: CommentedMap, path: NodePath, values: dict[NodePath, Place], keys: dict[NodePath, Place]
) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for raw_key, value in node.items():
        key = str(raw_key)
        if key.startswith("x-"):
            continue
        here = (*path, key)
        if raw_key in (node.lc.data or {}):
            key_line, key_column, line, column = node.lc.data[raw_key]
            if value is None and line != key_line:
                # Nothing stands there, which ruamel places at the next thing that does.
                line, column = key_line, key_column
            keys[here] = (key_line + 1, key_column + 1)
            values[here] = (line + 1, column + 1)
        plain[key] = _plain(value, here, values, keys)
    return plain


def _scalar(node: Any) -> Any:
    """The plain Python value of a scalar; ruamel's subclasses carry formatting we do not need."""
    if isinstance(node, ScalarBoolean):
        return bool(node)
    if isinstance(node, ScalarInt):
        return int(node)
    if isinstance(node, ScalarFloat):
        return float(node)
    if isinstance(node, (datetime.date, datetime.datetime)):
        return node.isoformat()
    if isinstance(node, str):
        return str(node)
    return node
