"""The reader of YAML 1.2 behind every file that a person writes: each refusal has its place.

ruamel.yaml lets what Python's own conversions say of a malformed value through without a place:
KeyError for `!!bool x`, IndexError for `0x_`, AssertionError for a key that stands twice in an
`!!omap`. Here they become errors with a mark, as its own are.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.parser import Parser, RoundTripParser
from ruamel.yaml.scanner import RoundTripScanner, Scanner

from orchestrator.spec.bounds import BeyondBounds, Bounded, whole

_CONVERSIONS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
_VERSIONS = ((1, 1), (1, 2))


def reader() -> YAML:
    """A reader that knows places. It raises YAMLError only, of which BeyondBounds is one."""
    made = YAML(typ="rt", pure=True)
    made.Scanner = _Scanner
    made.Parser = _Parser
    made.Composer = _Composer
    made.Constructor = _Constructor
    return made


class _Scanner(RoundTripScanner):
    """Passes over comments, which only a writer needs: each was added to all those before it."""

    check_token = Scanner.check_token
    peek_token = Scanner.peek_token
    get_token = Scanner.get_token

    def scan_to_next_token(self) -> None:
        while super().scan_to_next_token() is not None:
            pass

    def scan_yaml_directive_value(self, start_mark: Any) -> Any:
        try:
            version = super().scan_yaml_directive_value(start_mark)
        except ValueError:
            version = None  # thousands of digits
        if version not in _VERSIONS:
            asked = "YAML {}.{}".format(*version) if version else "a YAML that is not known"
            raise BeyondBounds(
                f"the file asks for {asked}",
                "YAML 1.2, or 1.1",
                "write `%YAML 1.2`, or remove this line",
                start_mark,
            )
        return version


class _Parser(RoundTripParser):
    move_token_comment = Parser.move_token_comment


class _Composer(Bounded):
    def get_single_node(self) -> Any:
        try:
            return super().get_single_node()
        except YAMLError:
            raise
        except _CONVERSIONS as error:
            # Only the scanner converts here: the escapes of a text in double quotes.
            mark = self.loader.reader.get_mark()
            raise MarkedYAMLError(None, None, f"no character: {error}", mark) from error


class _Constructor(RoundTripConstructor):
    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except YAMLError:
            raise
        except _CONVERSIONS as error:
            raise _no_value(node) from error

    def construct_mapping(  # type: ignore[override]
        self, node: Any, maptyp: Any, deep: bool = False
    ) -> Any:
        try:
            made = super().construct_mapping(node, maptyp, deep)
        except TypeError as error:
            what = "a key of this mapping is made of lists or mappings"
            raise MarkedYAMLError(None, None, what, node.start_mark) from error
        for base in maptyp.merge if hasattr(maptyp, "merge") else ():
            # Kept there for later changes of the base, and compared with at each further `<<`:
            # nobody changes what is read here, and thousands would take hours.
            base._ref.clear()
        return made

    def construct_yaml_int(self, node: Any) -> Any:
        return whole(node, super().construct_yaml_int)


_Constructor.add_constructor("tag:yaml.org,2002:int", _Constructor.construct_yaml_int)


def _no_value(node: Any) -> MarkedYAMLError:
    kind = str(node.tag).rpartition(":")[2]
    written = f"`{node.value[:40]}`" if node.id == "scalar" else f"a {node.id}"
    return MarkedYAMLError(None, None, f"{written} is no {kind}", node.start_mark)
