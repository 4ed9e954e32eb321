"""A YAML file as rules see it: ruamel nodes with their marks, YAML 1.2 meaning, quotes known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from preflight.finding import Edit, Span
from preflight.source import Source

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    YamlNode: TypeAlias = MappingNode | SequenceNode | ScalarNode
else:
    YamlNode = ScalarNode = object  # the reader is imported when the first YAML file is parsed


class YamlFile(Source):
    """The node tree of one YAML document. Construction raises YamlError when it does not parse."""

    def __init__(self, path: str, data: bytes, roles: frozenset[str] = frozenset()) -> None:
        super().__init__(path, data, roles)
        _refuse_large(data)
        self.text = data.decode("utf-8-sig")
        self._byte_map = len(self.text) != len(data)
        self.root: YamlNode | None = compose(self.text, path)

    def _byte(self, index: int) -> int:
        """Marks count characters after the BOM; edits and spans count raw bytes."""
        if not self._byte_map:
            return index
        start = self.line_starts[0]
        return start + len(self.text[:index].encode("utf-8"))

    def at(self, node: YamlNode) -> Span:
        """The span of a scalar, or of a collection's first line."""
        start, end = self._byte(node.start_mark.index), self._byte(node.end_mark.index)
        if not is_scalar(node):
            end = min(end, self.line_span(self.line_of(start)).end_byte)
        return self.span(start, max(end, start))

    def replace(self, node: YamlNode, text: str) -> Edit:
        return Edit(self._byte(node.start_mark.index), self._byte(node.end_mark.index), text)

    def insert_before(self, node: YamlNode, line: str) -> Edit:
        start = self._byte(node.start_mark.index)
        indent = " " * node.start_mark.column
        return Edit(start, start, f"{line}{self.newline}{indent}")

    def get(self, *path: str | int) -> YamlNode | None:
        node = self.root
        for step in path:
            if node is None:
                return None
            node = item(node, step)
        return node

    @property
    def top_level(self) -> set[str]:
        """The keys of the document's mapping."""
        return {key.value for key, _ in entries(self.root)}


class YamlError(Exception):
    """The file is not YAML; `line` counts from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(what)
        self.line = line
        self.column = column


def _refuse_large(data: bytes) -> None:
    from orchestrator.spec.bounds import MAX_BYTES

    if len(data) > MAX_BYTES:
        raise YamlError(f"the file is larger than {MAX_BYTES >> 20} MiB", 1, 1)


def compose(text: str, name: str) -> YamlNode | None:
    """Parse one document into nodes; duplicate keys are the loader's business, not ours."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    from orchestrator.spec.reader import reader

    lenient = reader()
    lenient.allow_duplicate_keys = True
    try:
        return lenient.compose(text)  # type: ignore[no-any-return]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlError(str(error.problem or error.context or "not YAML"), line, column) from error
    except YAMLError as error:
        raise YamlError(f"{name}: {error}", 1, 1) from error


def is_scalar(node: YamlNode | None) -> bool:
    return node is not None and node.id == "scalar"


def is_plain(node: ScalarNode) -> bool:
    """Written without quotes or a block mark."""
    return node.style in (None, "")


def entries(node: YamlNode | None) -> Iterator[tuple[ScalarNode, YamlNode]]:
    """Key and value nodes of a mapping; nothing for any other node."""
    if node is not None and node.id == "mapping":
        for key, value in node.value:
            if is_scalar(key):
                yield key, value


def items(node: YamlNode | None) -> Iterator[YamlNode]:
    if node is not None and node.id == "sequence":
        yield from node.value


def item(node: YamlNode | None, step: str | int) -> YamlNode | None:
    if isinstance(step, int):
        found = list(items(node))
        return found[step] if step < len(found) else None
    for key, value in entries(node):
        if key.value == step:
            return value
    return None


def scalar(node: YamlNode | None) -> str | None:
    return str(node.value) if node is not None and is_scalar(node) else None


def plain_value(node: YamlNode | None) -> Any:
    """The node as plain Python data; scalars stay the text that was written."""
    if node is None:
        return None
    if is_scalar(node):
        return node.value
    if node.id == "sequence":
        return [plain_value(child) for child in node.value]
    return {key.value: plain_value(value) for key, value in entries(node)}


def walk(node: YamlNode | None) -> Iterator[YamlNode]:
    """Every value node below, keys left out."""
    if node is None:
        return
    yield node
    for child in items(node):
        yield from walk(child)
    for _, value in entries(node):
        yield from walk(value)
