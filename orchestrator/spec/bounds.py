"""How large a YAML file may be: in bytes, in depth, and with all its aliases written out.

A few lines of aliases of aliases name billions of values, and a few thousand brackets are deeper
than Python may recurse. Both are counted while the nodes are made, before anything walks them.
A whole number has its bound too: beyond 4300 digits Python does not write it, and beyond 308 it
compares with no measured value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent

MAX_BYTES = 1 << 20
MAX_DEPTH = 100
# Each takes up to 60 us to be read.
MAX_VALUES = 150_000
# Less than a float holds, so that sums of two and other units of it are still numbers.
MAX_DIGITS = 300
_BEYOND_DIGITS = 10**MAX_DIGITS
# More than such a number has in any base; in base 60, longer ones take minutes to convert.
_LONGEST_WHOLE = 2000
# So many characters of one text count as a value: an alias repeats a long text as cheaply as `a`.
_CHARACTERS = 100


class BeyondBounds(MarkedYAMLError):
    """YAML that is well written and asks for more than is read here, at `problem_mark`."""

    def __init__(self, what: str, expected: str, fix: str, mark: Any) -> None:
        super().__init__(None, None, what, mark)
        self.expected = expected
        self.fix = fix


@dataclass
class _Extent:
    """What a node holds with its aliases written out, itself included."""

    values: int = 1
    depth: int = 1

    def take_in(self, child: _Extent) -> None:
        self.values += child.values
        self.depth = max(self.depth, child.depth + 1)


class Bounded(Composer):
    """Makes nodes as ever, and stops at the first that exceeds a bound."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        # YAML allows it, and Python's warning would name no file of the user's.
        self.warn_double_anchors = False
        self._open: list[_Extent] = []
        # The node is kept beside its extent, so that no other node gets its id.
        self._anchored: dict[int, tuple[Any, _Extent]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        if self.parser.check_event(AliasEvent):
            node = super().compose_node(parent, index)
            extent = self._extent_of(node, mark)
        else:
            node, extent = self._composed(parent, index, mark)
        if len(self._open) + extent.depth > MAX_DEPTH:
            raise _too_deep(mark)
        if self._open:
            self._open[-1].take_in(extent)
            if self._open[-1].values > MAX_VALUES:
                raise _too_many(mark)
        return node

    def _composed(self, parent: Any, index: Any, mark: Any) -> tuple[Any, _Extent]:
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep(mark)
        self._open.append(_Extent())
        node = super().compose_node(parent, index)
        extent = self._open.pop()
        if node.id == "scalar":
            extent.values += len(node.value) // _CHARACTERS
        if node.anchor is not None:
            self._anchored[id(node)] = (node, extent)
        return node, extent

    def _extent_of(self, node: Any, mark: Any) -> _Extent:
        known = self._anchored.get(id(node))
        if known is None:
            raise BeyondBounds(
                f"the alias `*{node.anchor}` stands inside what it names, which never ends",
                "an alias of something that is complete before it",
                "write out what it stands for",
                mark,
            )
        return known[1]


def whole(node: Any, convert: Callable[[Any], Any]) -> Any:
    """The whole number that a node holds."""
    if node.id == "scalar" and len(node.value) > _LONGEST_WHOLE:
        raise _too_large(node)
    number = convert(node)
    if abs(number) >= _BEYOND_DIGITS:
        raise _too_large(node)
    return number


def _too_large(node: Any) -> BeyondBounds:
    return BeyondBounds(
        f"the whole number `{node.value[:40]}...` is too large",
        f"at most {MAX_DIGITS} digits",
        "quote it if it is meant as text",
        node.start_mark,
    )


def _too_deep(mark: Any) -> BeyondBounds:
    return BeyondBounds(
        f"this is nested more than {MAX_DEPTH} levels deep",
        f"at most {MAX_DEPTH}",
        "take the inner levels out",
        mark,
    )


def _too_many(mark: Any) -> BeyondBounds:
    return BeyondBounds(
        f"with all aliases written out, there are more than {MAX_VALUES} values up to here",
        f"at most {MAX_VALUES}, a long text counting as many",
        "repeat less by aliases, or split the file",
        mark,
    )
