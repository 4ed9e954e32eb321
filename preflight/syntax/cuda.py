"""A CUDA or C++ file as rules see it: functions, barriers, inline PTX, launches, literal values.

The grammar knows no project macros, so macros that stand where a specifier stands are overwritten
by blanks of equal length before parsing; offsets stay true. A function whose tree holds an error
node is `clean = False`, and no rule may report from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from preflight.finding import Span
from preflight.source import Source
from preflight.syntax.macros import blank_macros
from preflight.syntax.ptx import Instruction, instructions

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query

_QUERY = """
(function_definition) @function
(call_expression) @call
(gnu_asm_expression) @asm
(if_statement) @if
(while_statement) @loop
(do_statement) @loop
(for_statement) @loop
(return_statement) @return
(preproc_def) @define
(ERROR) @error
"""
_LAUNCH_BOUNDS = re.compile(rb"__launch_bounds__\s*\(([^,()]*)")
_CONSTANT = re.compile(
    rb"\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?"
    rb"(?:int|auto|size_t|u?int(?:32|64)_t|unsigned)\s+(\w+)\s*=\s*([^;,]+);"
)
_ESCAPE = {b"\\n": "\n", b"\\t": "\t", b'\\"': '"', b"\\\\": "\\"}


@lru_cache(maxsize=1)
def _grammar() -> tuple[Language, Parser, Query]:
    import tree_sitter
    import tree_sitter_cuda

    language = tree_sitter.Language(tree_sitter_cuda.language())
    return language, tree_sitter.Parser(language), tree_sitter.Query(language, _QUERY)


@dataclass(eq=False)
class AsmStatement:
    """One inline assembly expression; `inputs` are the source texts bound to %0, %1, ..."""

    node: Node
    text: str
    inputs: tuple[str, ...]

    @cached_property
    def instructions(self) -> list[Instruction]:
        return instructions(self.text)

    def operand(self, word: str) -> str:
        """The source text behind `%N`, or the word itself."""
        if word.startswith("%") and word[1:].isdigit():
            index = int(word[1:])
            return self.inputs[index] if index < len(self.inputs) else word
        return word


@dataclass(eq=False)
class CudaCall:
    node: Node
    name: str
    arguments: tuple[Node, ...]


@dataclass(eq=False)
class Launch:
    """`kernel<<<grid, block, shared, stream>>>(...)` with the configuration nodes as written."""

    node: Node
    kernel: str
    config: tuple[Node, ...]
    function: CudaFunction | None


@dataclass(eq=False)
class CudaFunction:
    """One function body. `is_kernel` means `__global__`; `clean` means it parsed without error."""

    node: Node
    name: str
    is_kernel: bool
    is_device: bool
    clean: bool
    launch_bound: str
    calls: list[CudaCall] = field(default_factory=list)
    asms: list[AsmStatement] = field(default_factory=list)
    ifs: list[Node] = field(default_factory=list)
    loops: list[Node] = field(default_factory=list)
    returns: list[Node] = field(default_factory=list)

    def calls_to(self, *names: str) -> list[CudaCall]:
        return [call for call in self.calls if call.name in names]


class CudaFile(Source):
    """A parsed CUDA/C++ file; never fails to parse, but functions may be unclean."""

    def __init__(
        self,
        path: str,
        data: bytes,
        roles: frozenset[str] = frozenset(),
        macros: tuple[str, ...] = (),
    ) -> None:
        super().__init__(path, data, roles)
        self.parsed = blank_macros(data, macros)
        self.constants: dict[str, int] = {}
        self.functions: list[CudaFunction] = []
        self.launches: list[Launch] = []
        self._build()

    @property
    def skipped(self) -> int:
        """GPU functions that did not parse cleanly, and stretches that became no function."""
        gpu = (f for f in self.functions if f.is_kernel or f.is_device)
        return sum(not function.clean for function in gpu) + self._lost

    @property
    def clean_functions(self) -> Iterator[CudaFunction]:
        return (function for function in self.functions if function.clean)

    @property
    def kernels(self) -> Iterator[CudaFunction]:
        return (function for function in self.clean_functions if function.is_kernel)

    def _build(self) -> None:
        from tree_sitter import QueryCursor

        _, parser, query = _grammar()
        self.root = parser.parse(self.parsed).root_node
        captures = QueryCursor(query).captures(self.root)
        self.functions = [self._function(node) for node in captures.get("function", [])]
        self.functions.sort(key=lambda function: function.node.start_byte)
        lost = [n for n in captures.get("error", []) if self.function_at(n.start_byte) is None]
        self._lost = sum(b"__global__" in (node.text or b"") for node in lost)
        self._read_constants(captures.get("define", []))
        for kind, attribute in (("if", "ifs"), ("loop", "loops"), ("return", "returns")):
            for node in captures.get(kind, []):
                owner = self.function_at(node.start_byte)
                if owner:
                    getattr(owner, attribute).append(node)
        for node in captures.get("asm", []):
            owner = self.function_at(node.start_byte)
            if owner:
                owner.asms.append(_asm(node))
        for node in captures.get("call", []):
            self._add_call(node)
        for function in self.functions:
            for items in (function.ifs, function.loops, function.returns):
                items.sort(key=lambda node: node.start_byte)
            function.calls.sort(key=lambda call: call.node.start_byte)
            function.asms.sort(key=lambda asm: asm.node.start_byte)

    def _function(self, node: Node) -> CudaFunction:
        body = node.child_by_field_name("body")
        head = self.data[node.start_byte : body.start_byte if body else node.end_byte]
        bound = _LAUNCH_BOUNDS.search(head)
        return CudaFunction(
            node=node,
            name=_declared_name(node),
            is_kernel=b"__global__" in head,
            is_device=b"__device__" in head or b"_DEVICE" in head,
            clean=not node.has_error,
            launch_bound=bound.group(1).decode("utf-8", "replace").strip() if bound else "",
        )

    def function_at(self, offset: int) -> CudaFunction | None:
        """The innermost function around a byte offset."""
        found = None
        for function in self.functions:
            if function.node.start_byte > offset:
                break
            if offset < function.node.end_byte:
                found = function
        return found

    def _add_call(self, node: Node) -> None:
        target = node.child_by_field_name("function")
        if target is None:
            return
        owner = self.function_at(node.start_byte)
        name = _last_name(target)
        config = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
        if config is not None:
            self.launches.append(Launch(node, name, tuple(config.named_children), owner))
            return
        arguments = node.child_by_field_name("arguments")
        given = (
            tuple(c for c in arguments.named_children if c.type != "comment") if arguments else ()
        )
        if owner:
            owner.calls.append(CudaCall(node, name, given))

    def _read_constants(self, defines: list[Node]) -> None:
        """Integer macros and constexpr variables of the file; a name with two values is dropped."""
        seen: dict[str, set[int]] = {}
        for node in defines:
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name and value and value.text:
                number = _number(value.text.decode("utf-8", "replace"))
                if number is not None:
                    seen.setdefault(text(name), set()).add(number)
        for match in _CONSTANT.finditer(self.data):
            name_text = match.group(1).decode("utf-8", "replace")
            number = _number(match.group(2).decode("utf-8", "replace"))
            values = seen.setdefault(name_text, set())
            values.add(number if number is not None else -1)
            if number is None:
                values.add(-2)
        self.constants = {n: next(iter(v)) for n, v in seen.items() if len(v) == 1}

    def value(self, node: Node | None) -> int | None:
        """The integer a node stands for, or None when it is symbolic."""
        if node is None or node.has_error:
            return None
        match node.type:
            case "number_literal":
                return _number(text(node))
            case "identifier":
                return self.constants.get(text(node))
            case "parenthesized_expression" | "condition_clause":
                inner = node.named_children
                return self.value(inner[0]) if len(inner) == 1 else None
            case "binary_expression":
                return self._binary(node)
        return None

    def value_of_text(self, words: str) -> int | None:
        words = words.strip().strip("()")
        number = _number(words)
        return number if number is not None else self.constants.get(words)

    def _binary(self, node: Node) -> int | None:
        left = self.value(node.child_by_field_name("left"))
        right = self.value(node.child_by_field_name("right"))
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return None
        match operator.type:
            case "*":
                return left * right
            case "+":
                return left + right
            case "-":
                return left - right
            case "/" if right:
                return left // right
            case "<<" if 0 <= right < 40:
                return left << right
        return None

    def dimensions(self, node: Node | None, function: CudaFunction | None) -> list[int] | None:
        """Literal extents of a grid or block: `256`, `dim3(32, 8)`, or a dim3 variable."""
        if node is None:
            return None
        number = self.value(node)
        if number is not None:
            return [number]
        if node.type == "call_expression" and _last_name(node.children[0]) == "dim3":
            arguments = node.child_by_field_name("arguments")
            return self._all_values(arguments)
        if node.type == "initializer_list":
            return self._all_values(node)
        if node.type == "identifier" and function is not None:
            return self._declared_dimensions(text(node), function)
        return None

    def _all_values(self, node: Node | None) -> list[int] | None:
        values = [self.value(child) for child in node.named_children] if node else []
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def _declared_dimensions(self, name: str, function: CudaFunction) -> list[int] | None:
        """`dim3 name(32, 8)`, by its text: `dim3 g(N)` parses as a function declaration."""
        body = self.parsed[function.node.start_byte : function.node.end_byte].decode(
            "utf-8", "replace"
        )
        word = re.escape(name)
        if re.search(rf"\b{word}(?:\.[xyz])?\s*=(?!=)(?!\s*dim3\b)", body):
            return None
        found = re.findall(rf"\bdim3\s+{word}\s*(?:=\s*dim3\s*)?[({{]([^;(){{}}]*)[)}}]\s*;", body)
        values = (
            [self.value_of_text(part) for part in found[0].split(",")] if len(found) == 1 else []
        )
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def at(self, node: Node) -> Span:
        return self.span(node.start_byte, node.end_byte)


def text(node: Node) -> str:
    return node.text.decode("utf-8", "replace") if node.text else ""


def descendants(root: Node, *kinds: str) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.children))


def inside(node: Node, outer: Node | None) -> bool:
    return (
        outer is not None
        and outer.start_byte <= node.start_byte
        and node.end_byte <= outer.end_byte
    )


def identifiers(node: Node) -> set[str]:
    return {text(item) for item in descendants(node, "identifier")}


def _declared_name(node: Node) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or (
            declarator.named_children[-1] if declarator.named_children else None
        )
    name = declarator.child_by_field_name("declarator") if declarator else None
    return _last_name(name) if name else ""


def _last_name(node: Node) -> str:
    """`a::b<3>::c<4>` -> `c`, `obj.f` -> `f`."""
    while True:
        field_name = "field" if node.type == "field_expression" else "name"
        inner = node.child_by_field_name(field_name)
        if inner is None:
            return text(node)
        node = inner


def _asm(node: Node) -> AsmStatement:
    code = node.child_by_field_name("assembly_code")
    pieces = []
    if code is not None:
        for part in descendants(code, "string_content", "escape_sequence", "raw_string_content"):
            raw = part.text or b""
            pieces.append(_ESCAPE.get(raw, raw.decode("utf-8", "replace")))
    operands = []
    for field_name in ("output_operands", "input_operands"):
        group = node.child_by_field_name(field_name)
        if group is not None:
            values = [child.child_by_field_name("value") for child in group.named_children]
            operands += [text(value) for value in values if value is not None]
    return AsmStatement(node, "".join(pieces), tuple(operands))


def _number(words: str) -> int | None:
    words = words.strip().strip("()").rstrip("uUlL").replace("'", "")
    product = words.split("*")
    if len(product) > 1:
        factors = [_number(part) for part in product]
        total = 1
        for factor in factors:
            if factor is None:
                return None
            total *= factor
        return total
    try:
        return int(words, 0)
    except ValueError:
        return None
