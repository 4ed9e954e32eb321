"""Check one file: parse it once, run every rule that wants it, read its suppressions."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preflight.config import Config
from preflight.finding import Finding, Hit
from preflight.rule import RegisteredRule
from preflight.source import Source
from preflight.suppressions import Suppression, read_suppressions

# Top-level keys that make a YAML file one of ours; other YAML is text to us.
_OURS = re.compile(rb"^(?:experiment|ledger|hosts|whitelist)[ \t]*:", re.MULTILINE)
_DEVICE_CODE = re.compile(rb"__global__|__device__|__syncthreads|<<<|\basm\b")
UNPARSED = "unparsed-file"


@dataclass(frozen=True)
class FileResult:
    """What checking one file gave, before suppressions, overrides and per-file ignores."""

    path: str
    findings: tuple[Finding, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    skipped_functions: int = 0


class Unparsed(Exception):
    """The file does not parse; `line` and `column` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(what)
        self.line = line
        self.column = column


def check_file(
    path: str, data: bytes, language: str, rules: Iterable[RegisteredRule], config: Config
) -> FileResult:
    """Run the rules of one file. Never raises for what is in the file."""
    roles = config.roles(path)
    source = Source(path, data, roles)
    wanting = [rule for rule in rules if rule.card.wants(data)]
    hits = list(_text_hits(source, wanting, config))
    skipped = 0
    try:
        parsed = parse(path, data, language, roles, wanting, config)
        if parsed is not None:
            hits += _syntax_hits(parsed, language, wanting, config)
            skipped = getattr(parsed, "skipped", 0)
    except Unparsed as error:
        hits += _unparsed_hits(source, error, wanting)
    return FileResult(
        path=path,
        findings=bind(hits, source),
        suppressions=tuple(read_suppressions(source, language)),
        skipped_functions=skipped,
    )


def parse(
    path: str,
    data: bytes,
    language: str,
    roles: frozenset[str],
    rules: Iterable[RegisteredRule],
    config: Config,
) -> Source | None:
    """The file in the form its rules read, or None when no rule needs a tree. Raises Unparsed."""
    if language == "python":
        return parse_python(path, data, roles)
    if language == "cuda":
        if not any(rule.checker("check_cuda") for rule in rules):
            return None
        return parse_cuda(path, data, roles, config) if has_device_code(data) else None
    if language == "yaml" and is_ours(data):
        return parse_yaml(path, data, roles)
    return None


def parse_python(path: str, data: bytes, roles: frozenset[str]) -> Source:
    from preflight.syntax.python import PythonFile

    try:
        return PythonFile(path, data, roles)
    except SyntaxError as error:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        what = f"{error.msg} (read by Python {version})"
        raise Unparsed(what, error.lineno or 1, error.offset or 1) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsed(str(error), 1, 1) from error


def has_device_code(data: bytes) -> bool:
    """Whether a C++ file concerns a GPU at all; most headers do not and are never parsed."""
    return bool(_DEVICE_CODE.search(data))


def parse_cuda(path: str, data: bytes, roles: frozenset[str], config: Config) -> Source:
    from preflight.syntax.cuda import CudaFile

    return CudaFile(path, data, roles, config.cuda_macros)


def parse_yaml(path: str, data: bytes, roles: frozenset[str]) -> Source:
    from preflight.syntax.yaml import YamlError, YamlFile

    try:
        return YamlFile(path, data, roles)
    except YamlError as error:
        raise Unparsed(str(error), error.line, error.column) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unparsed(f"byte {error.start} is not UTF-8", line, 1) from error


def is_ours(data: bytes) -> bool:
    """Whether a YAML file is an experiment, a ledger, a hosts file or a kernel whitelist."""
    return bool(_OURS.search(data))


def _text_hits(
    source: Source, rules: Iterable[RegisteredRule], config: Config
) -> Iterator[tuple[RegisteredRule, Hit]]:
    for rule in rules:
        check = rule.checker("check_text")
        if check:
            yield from ((rule, hit) for hit in check(source, config))


def _syntax_hits(
    parsed: Source, language: str, rules: Iterable[RegisteredRule], config: Config
) -> Iterator[tuple[RegisteredRule, Hit]]:
    for rule in rules:
        check = rule.checker(f"check_{language}")
        if check:
            yield from ((rule, hit) for hit in check(parsed, config))


def _unparsed_hits(
    source: Source, error: Unparsed, rules: Iterable[RegisteredRule]
) -> Iterator[tuple[RegisteredRule, Hit]]:
    for rule in rules:
        if rule.card.name == UNPARSED:
            line = min(error.line, len(source.line_starts))
            yield rule, rule.module.failure(source, str(error), line)


def bind(hits: Iterable[tuple[RegisteredRule, Hit]], source: Source) -> tuple[Finding, ...]:
    """Give hits their rule's card and a stable id; equal lines are told apart by their order."""
    counts: dict[str, int] = {}
    found = []
    for rule, hit in sorted(hits, key=lambda pair: (pair[1].span.start_byte, pair[0].card.code)):
        snippet = " ".join(source.line_text(hit.span.line).split())
        seed = f"{rule.card.name}\0{source.path}\0{snippet}"
        counts[seed] = counts.get(seed, 0) + 1
        digest = hashlib.sha256(f"{seed}\0{counts[seed]}".encode("utf-8", "replace")).hexdigest()
        found.append(to_finding(rule, hit, source.path, digest[:16]))
    return tuple(found)


def to_finding(rule: RegisteredRule, hit: Hit, path: str, identity: str) -> Finding:
    card = rule.card
    return Finding(
        id=identity,
        rule=card.name,
        code=card.code,
        path=path,
        span=hit.span,
        severity=card.severity,
        profile=card.profile,
        message=hit.message,
        consequence=hit.consequence or card.consequence,
        help=hit.help or card.help,
        fix=hit.fix,
        related=hit.related,
    )
