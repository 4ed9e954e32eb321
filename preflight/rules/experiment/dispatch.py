"""Dispatchers in code: the literal values a parameter may have, and what happens to all others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from preflight.syntax.cuda import CudaFile, descendants, text
from preflight.syntax.python import PythonFile, keyword, text_of

if TYPE_CHECKING:
    from tree_sitter import Node


# The word alone, not a part of a rule's name in a suppression.
_SAYS_DEFAULT = re.compile(r"(?<![\w-])default(?![\w-])")


@dataclass(frozen=True)
class Dispatcher:
    """One place that decides by a parameter's value.

    `values` are the literals it knows, as text. `default` is the byte offset of a branch that takes
    every other value without complaint, or None when the others are refused.
    """

    path: str
    name: str
    offset: int
    values: frozenset[str]
    default: int | None
    default_declared: bool


def python_dispatchers(file: PythonFile) -> Iterator[Dispatcher]:
    """if/elif chains, match statements, literal tables, `choices=` and Literal annotations."""
    yield from _chains(file)
    yield from _matches(file)
    yield from _tables(file)
    yield from _choices(file)
    yield from _annotations(file)


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _compared(test: ast.expr) -> tuple[str, set[str]] | None:
    """`mode == "a"` and `mode in ("a", "b")`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    name, other = _name(test.left), test.comparators[0]
    if name is None:
        return None
    if isinstance(test.ops[0], ast.Eq) and isinstance(other, ast.Constant):
        return name, {str(other.value)}
    if isinstance(test.ops[0], ast.In) and isinstance(other, (ast.Tuple, ast.List, ast.Set)):
        values = {str(item.value) for item in other.elts if isinstance(item, ast.Constant)}
        return (name, values) if len(values) == len(other.elts) else None
    return None


def _chains(file: PythonFile) -> Iterator[Dispatcher]:
    inner = {
        id(node.orelse[0])
        for node in file.nodes(ast.If)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
    }
    for node in file.nodes(ast.If):
        if id(node) in inner:
            continue
        found = _walk_chain(node)
        if found is None:
            continue
        name, values, branches, last = found
        if branches < 2:
            continue
        default = last[0] if last and not _refuses(last) else None
        yield Dispatcher(
            file.path,
            name,
            file.start(node),
            frozenset(values),
            file.start(default) if default is not None else None,
            default is not None and _declared(file, default),
        )


def _walk_chain(node: ast.If) -> tuple[str, set[str], int, list[ast.stmt]] | None:
    """Name, values, number of branches and the final else of a chain over one name."""
    name = None
    values: set[str] = set()
    branches = 0
    current: ast.If | None = node
    while current is not None:
        compared = _compared(current.test)
        if compared is None or (name is not None and compared[0] != name):
            return None
        name = compared[0]
        values |= compared[1]
        branches += 1
        rest = current.orelse
        current = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
    return (name, values, branches, rest) if name else None


def _refuses(block: list[ast.stmt]) -> bool:
    """The block ends in an exception, an exit, an assert or an error call."""
    last = block[-1]
    if isinstance(last, (ast.Raise, ast.Assert)):
        return True
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        name = _name(last.value.func) or ""
        return name in ("exit", "fail", "error", "abort", "_exit", "assert_never", "skip")
    return False


def _declared(file: PythonFile, statement: ast.stmt) -> bool:
    """A comment on the branch, or on its `else:` line, says `default`."""
    lines = (statement.lineno - 1, statement.lineno)
    return any(_SAYS_DEFAULT.search(file.line_text(n).partition("#")[2]) for n in lines if n >= 1)


def _matches(file: PythonFile) -> Iterator[Dispatcher]:
    for node in file.nodes(ast.Match):
        name = _name(node.subject)
        values: set[str] = set()
        default: ast.stmt | None = None
        for case in node.cases:
            patterns = (
                case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
            )
            for pattern in patterns:
                if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
                    values.add(str(pattern.value.value))
                elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
                    default = None if _refuses(case.body) else case.body[0]
        if name and len(values) >= 2:
            place = file.start(default) if default is not None else None
            yield Dispatcher(
                file.path,
                name,
                file.start(node),
                frozenset(values),
                place,
                default is not None and _declared(file, default),
            )


def _tables(file: PythonFile) -> Iterator[Dispatcher]:
    """`TABLE[mode]` over a dictionary literal of the file."""
    tables = {
        target.id: node.value
        for node in file.nodes(ast.Assign)
        if isinstance(node.value, ast.Dict) and len(node.value.keys) >= 2
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in file.nodes(ast.Subscript):
        table = tables.get(node.value.id) if isinstance(node.value, ast.Name) else None
        name = _name(node.slice)
        if table is None or name is None or not isinstance(node.ctx, ast.Load):
            continue
        keys = [str(key.value) for key in table.keys if isinstance(key, ast.Constant)]
        if len(keys) == len(table.keys):
            yield Dispatcher(file.path, name, file.start(node), frozenset(keys), None, False)


def _choices(file: PythonFile) -> Iterator[Dispatcher]:
    for call, called in file.calls:
        if not called.endswith("add_argument") or not call.args:
            continue
        choices = keyword(call, "choices")
        flag = text_of(call.args[-1]) or ""
        if isinstance(choices, (ast.Tuple, ast.List, ast.Set)) and flag.startswith("--"):
            values = [str(item.value) for item in choices.elts if isinstance(item, ast.Constant)]
            if len(values) == len(choices.elts):
                name = flag.lstrip("-").replace("-", "_")
                yield Dispatcher(file.path, name, file.start(call), frozenset(values), None, False)


def _annotations(file: PythonFile) -> Iterator[Dispatcher]:
    """Parameters annotated `Literal[...]` or with an Enum of the file."""
    enums = {node.name: _enum_values(file, node) for node in file.nodes(ast.ClassDef)}
    for node in file.nodes(ast.arg):
        annotation = node.annotation
        values: frozenset[str] = frozenset()
        if isinstance(annotation, ast.Subscript) and file.qualified(annotation.value).endswith(
            "Literal"
        ):
            parts = (
                annotation.slice.elts
                if isinstance(annotation.slice, ast.Tuple)
                else [annotation.slice]
            )
            values = frozenset(str(p.value) for p in parts if isinstance(p, ast.Constant))
        elif isinstance(annotation, ast.Name):
            values = enums.get(annotation.id, frozenset())
        if len(values) >= 2 and annotation is not None:
            yield Dispatcher(file.path, node.arg, file.start(annotation), values, None, False)


def _enum_values(file: PythonFile, node: ast.ClassDef) -> frozenset[str]:
    if not any(
        file.qualified(parent).rsplit(".", 1)[-1] in ("Enum", "StrEnum", "IntEnum")
        for parent in node.bases
    ):
        return frozenset()
    return frozenset(
        str(statement.value.value)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
    )


def cuda_dispatchers(file: CudaFile) -> Iterator[Dispatcher]:
    """`switch (rows) { case 2: ... default: ... }` over integer literals."""
    for function in file.clean_functions:
        for node in descendants(function.node, "switch_statement"):
            condition, body = (
                node.child_by_field_name("condition"),
                node.child_by_field_name("body"),
            )
            if condition is None or body is None:
                continue
            name = text(condition).strip("() ").rsplit(".", 1)[-1]
            values, default = _cases(file, body)
            if name.isidentifier() and len(values) >= 2:
                refused = default is None or bool(
                    re.search(
                        r"throw|TORCH_CHECK|assert|abort|exit|error|return\s+-|invalid",
                        text(default),
                        re.IGNORECASE,
                    )
                )
                place = None if refused or default is None else default.start_byte
                comment = text(default).partition("//")[2] if default is not None else ""
                declared = bool(_SAYS_DEFAULT.search(comment))
                yield Dispatcher(
                    file.path, name, node.start_byte, frozenset(values), place, declared
                )


def _cases(file: CudaFile, body: Node) -> tuple[set[str], Node | None]:
    values: set[str] = set()
    default = None
    for case in descendants(body, "case_statement"):
        value = case.child_by_field_name("value")
        number = file.value(value)
        if value is None:
            default = case
        elif number is not None:
            values.add(str(number))
    return values, default
