"""How deep a YAML file may be nested, told before anything recurses through it."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import AliasEvent

MAX_DEPTH = 100


class BeyondBounds(MarkedYAMLError):  # type: ignore[misc]
    """YAML that is well written and asks for too much; `problem_mark` is where it does."""

    def __init__(self, what: str, expected: str, fix: str, mark: Any) -> None:
        super().__init__(None, None, what, mark)
        self.expected = expected
        self.fix = fix


def reader() -> YAML:
    """A reader of YAML 1.2 that knows places, and raises BeyondBounds."""
    made = YAML(typ="rt", pure=True)
    made.Composer = _Bounded
    return made


class _Bounded(Composer):  # type: ignore[misc]
    """Makes nodes as ever, and stops at the first that exceeds the bound."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        # YAML allows it, and Python's warning would name no file of the user's.
        self.warn_double_anchors = False
        # How deep each node that is being made goes so far, itself included, outermost first.
        self._open: list[int] = []
        # The node is kept beside its depth, so that no other node gets its id.
        self._anchored: dict[int, tuple[Any, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        if self.parser.check_event(AliasEvent):
            node = super().compose_node(parent, index)
            depth = self._depth_of(node, mark)
        else:
            node, depth = self._composed(parent, index, mark)
        if len(self._open) + depth > MAX_DEPTH:
            raise _too_deep(mark)
        if self._open:
            self._open[-1] = max(self._open[-1], depth + 1)
        return node

    def _composed(self, parent: Any, index: Any, mark: Any) -> tuple[Any, int]:
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep(mark)
        self._open.append(1)
        node = super().compose_node(parent, index)
        depth = self._open.pop()
        if node.anchor is not None:
            self._anchored[id(node)] = (node, depth)
        return node, depth

    def _depth_of(self, node: Any, mark: Any) -> int:
        known = self._anchored.get(id(node))
        if known is None:
            raise BeyondBounds(
                f"the alias `*{node.anchor}` stands inside what it names, which never ends",
                "an alias of something that is complete before it",
                "write out what it stands for",
                mark,
            )
        return known[1]


def _too_deep(mark: Any) -> BeyondBounds:
    return BeyondBounds(
        f"this is nested more than {MAX_DEPTH} levels deep",
        f"at most {MAX_DEPTH}",
        "take the inner levels out",
        mark,
    )
