"""A Python file as rules see it: one walk, an alias table for qualified names, exact byte spans."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar, cast

from preflight.finding import Edit, Span
from preflight.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = (ast.For, ast.AsyncFor, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

N = TypeVar("N", bound=ast.AST)
R = TypeVar("R")


def _check_encoding(data: bytes) -> None:
    """Refuse bytes that the interpreter refuses: the parser overlooks them inside a comment.

    Raises:
        SyntaxError: a byte that the file's encoding does not have, with its line.
    """
    if data.isascii():
        return
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        text = f"the byte 0x{data[error.start]:02x} is not {encoding}"
        line = data.count(b"\n", 0, error.start) + 1
        raise SyntaxError(text, ("", line, 1, "")) from error


class PythonFile(Source):
    """A parsed Python file. Raises SyntaxError or ValueError when it does not parse."""

    def __init__(self, path: str, data: bytes, roles: frozenset[str] = frozenset()) -> None:
        super().__init__(path, data, roles)
        _check_encoding(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(data)
        self._parents: dict[ast.AST, ast.AST] = {}
        self._by_type: dict[type[ast.AST], list[ast.AST]] | None = None
        self.facts: dict[object, object] = {}

    def _index(self) -> dict[type[ast.AST], list[ast.AST]]:
        if self._by_type is not None:
            return self._by_type
        by_type: dict[type[ast.AST], list[ast.AST]] = {}
        parents = self._parents
        queue: list[ast.AST] = [self.tree]
        for node in queue:
            by_type.setdefault(type(node), []).append(node)
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    parents[value] = node
                    queue.append(value)
                elif isinstance(value, list):
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            queue.append(item)
        self._by_type = by_type
        return by_type

    def nodes(self, kind: type[N]) -> list[N]:
        """All nodes of exactly one type, outer ones before inner ones."""
        return self._index().get(kind, [])  # type: ignore[return-value]

    @property
    def function_nodes(self) -> list[FunctionNode]:
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    def parent(self, node: ast.AST) -> ast.AST | None:
        self._index()
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        up = self.parent(node)
        while up is not None:
            yield up
            up = self._parents.get(up)

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        return next((up for up in self.ancestors(node) if isinstance(up, kinds)), None)

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        for up in self.ancestors(node):
            if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return up
        return None

    def scope_of(self, node: ast.AST) -> FunctionNode | ast.Module:
        return self.function_of(node) or self.tree

    def statement_of(self, node: ast.AST) -> ast.stmt:
        if isinstance(node, ast.stmt):
            return node
        for up in self.ancestors(node):
            if isinstance(up, ast.stmt):
                return up
        raise LookupError(f"{self.path}: no statement around {ast.dump(node)[:60]}")

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Local name -> dotted name it was imported as, module and function level alike."""
        table: dict[str, str] = {}
        for node in self.nodes(ast.Import):
            for name in node.names:
                if name.asname:
                    table[name.asname] = name.name
                else:
                    root = name.name.split(".")[0]
                    table[root] = root
        for origin in self.nodes(ast.ImportFrom):
            module = "." * origin.level + (origin.module or "")
            for name in origin.names:
                table[name.asname or name.name] = f"{module}.{name.name}"
        return table

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Functions of the file by name; a name defined twice maps to the last one."""
        return {node.name: node for node in self.function_nodes}

    def qualified(self, node: ast.AST) -> str:
        """Dotted name, its root resolved through the imports; "" for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.aliases.get(node.id, node.id))
        return ".".join(reversed(parts))

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Every call with the qualified name of what is called ("" when unknown)."""
        return [(node, self.qualified(node.func)) for node in self.nodes(ast.Call)]

    def calls_to(self, *names: str) -> Iterator[ast.Call]:
        wanted = frozenset(names)
        return (call for call, name in self.calls if name in wanted)

    def calls_in(self, root: ast.AST) -> Iterator[tuple[ast.Call, str]]:
        for node in ast.walk(root):
            if isinstance(node, ast.Call):
                yield node, self.qualified(node.func)

    def decorator_names(self, function: FunctionNode) -> set[str]:
        names = set()
        for decorator in function.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            names.add(self.qualified(target))
        return names

    def offset(self, line: int, utf8_column: int) -> int:
        return self.line_starts[line - 1] + utf8_column

    def start(self, node: ast.expr | ast.stmt | ast.ExceptHandler | ast.keyword) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.ExceptHandler | ast.keyword) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def at(self, node: ast.expr | ast.stmt | ast.ExceptHandler | ast.keyword) -> Span:
        """The span of a node; of a compound statement only its first line."""
        end = self.end(node)
        if isinstance(node, (ast.stmt, ast.ExceptHandler)) and hasattr(node, "body"):
            end = min(end, self.line_span(node.lineno).end_byte)
        return self.span(self.start(node), end)

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.data[self.start(node) : self.end(node)].decode("utf-8", "replace")

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def insert_argument(self, call: ast.Call, argument: str) -> Edit:
        """Add one keyword argument at the end of a call, keeping a trailing comma's layout."""
        close = self.end(call) - 1
        inside = self.data[self.end(call.func) + 1 : close].rstrip()
        comma = "" if not inside or inside.endswith((b",", b"(")) else ", "
        if inside.endswith(b","):
            comma = " "
        place = self.end(call.func) + 1 + len(inside)
        return Edit(place, place, comma + argument)

    def insert_line_before(self, statement: ast.stmt, text: str) -> Edit:
        start = self.start(statement)
        line_start = self.line_starts[statement.lineno - 1]
        indent = self.data[line_start:start].decode("utf-8", "replace")
        return Edit(start, start, f"{text}{self.newline}{indent}")


def per_file(function: Callable[[PythonFile], R]) -> Callable[[PythonFile], R]:
    """Compute once a file what several rules ask for."""

    def remembered(file: PythonFile) -> R:
        if function not in file.facts:
            file.facts[function] = function(file)
        return cast("R", file.facts[function])

    return remembered


def constant(node: ast.AST | None) -> object:
    """The value of a literal, constant arithmetic folded; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = constant(node.operand)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, ast.BinOp):
        return _fold(node)
    return None


def _fold(node: ast.BinOp) -> int | float | None:
    left, right = constant(node.left), constant(node.right)
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    match node.op:
        case ast.Mult():
            return left * right
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Pow() if 0 <= right <= 64 and abs(left) <= 64:
            power: int | float = left**right
            return power
        case ast.LShift() if isinstance(left, int) and isinstance(right, int) and right <= 64:
            return left << right
    return None


def integer(node: ast.AST | None) -> int | None:
    value = constant(node)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_of(node: ast.AST | None) -> str | None:
    value = constant(node)
    return value if isinstance(value, str) else None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    for word in call.keywords:
        if word.arg == name:
            return word.value
    return None


def has_double_star(call: ast.Call) -> bool:
    return any(word.arg is None for word in call.keywords)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument given at a position or by keyword; None when absent or hidden behind a star."""
    if any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1]):
        return None
    if len(call.args) > position:
        return call.args[position]
    return keyword(call, name)


def names_in(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def assigned_names(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    found = []
    for target in targets:
        found += [item.id for item in ast.walk(target) if isinstance(item, ast.Name)]
    return found


def block_around(file: PythonFile, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements a statement stands in."""
    parent = file.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]
