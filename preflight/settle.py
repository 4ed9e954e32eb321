"""The last word on each finding: ignores, severities, suppressions and their own rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date as date
from datetime import datetime, timezone

from preflight.checking import FileResult, to_finding
from preflight.config import Config, matches
from preflight.finding import Finding, Hit
from preflight.rule import RegisteredRule, Registry
from preflight.suppressions import Suppression


@dataclass(frozen=True)
class Settled:
    """A finding that a suppression silenced, with the reason the author gave."""

    finding: Finding
    suppression: Suppression


@dataclass(frozen=True)
class Outcome:
    findings: tuple[Finding, ...]
    suppressed: tuple[Settled, ...]


@dataclass(frozen=True)
class SuppressionUse:
    """What the suppression rules judge: one comment, and which of its rules it was needed for.

    `judged` holds the rules that ran on this file; only of those can one say "unused".
    """

    path: str
    suppression: Suppression
    rules: Registry
    used: frozenset[str]
    judged: frozenset[str]
    today: date


def settle(
    results: Iterable[FileResult],
    active: list[RegisteredRule],
    rules: Registry,
    config: Config,
    files_only: bool,
    honour: bool,
) -> Outcome:
    """Apply per-file ignores, severity overrides and (if `honour`) suppressions."""
    today = datetime.now(tz=timezone.utc).date()
    names = [r.card.name for r in active if not (files_only and r.checker("check_project"))]
    kept: list[Finding] = []
    silenced: list[Settled] = []
    for result in results:
        ignored = _ignored(result.path, rules, config)
        findings = [f for f in result.findings if f.rule not in ignored]
        judged = frozenset(names) - ignored
        shown, hidden, uses = _suppress(findings, result, rules, judged, today, honour)
        for rule in active:
            check = rule.checker("check_suppression")
            if check and rule.card.name not in ignored:
                shown += _bound(rule, result.path, uses, check)
        kept += shown
        silenced += hidden
    overrides = {
        name: level for word, level in config.severity.items() for name in rules.expand(word) or ()
    }
    final = [replace(f, severity=overrides.get(f.rule, f.severity)) for f in kept]
    final.sort(key=lambda f: (f.path, f.span.start_byte, f.code))
    return Outcome(tuple(final), tuple(silenced))


def _ignored(path: str, rules: Registry, config: Config) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for glob, words in config.per_file.items():
        if matches(path, (glob,)):
            for word in words:
                found |= rules.expand(word) or frozenset()
    return found


def _suppress(
    findings: list[Finding],
    result: FileResult,
    rules: Registry,
    judged: frozenset[str],
    today: date,
    honour: bool,
) -> tuple[list[Finding], list[Settled], list[SuppressionUse]]:
    shown: list[Finding] = []
    hidden: list[Settled] = []
    used: dict[int, set[str]] = {}
    for finding in findings:
        match = _match(finding, result.suppressions, rules, today)
        if match is None:
            shown.append(finding)
            continue
        used.setdefault(match.start_byte, set()).add(finding.rule)
        if honour:
            hidden.append(Settled(finding, match))
        else:
            shown.append(finding)
    uses = [
        SuppressionUse(
            result.path, item, rules, frozenset(used.get(item.start_byte, ())), judged, today
        )
        for item in result.suppressions
    ]
    return shown, hidden, uses


def _match(
    finding: Finding, suppressions: Iterable[Suppression], rules: Registry, today: date
) -> Suppression | None:
    for item in suppressions:
        if item.problem or item.expired(today) or not item.covers(finding.span.line):
            continue
        if any(rules.canonical(word) == finding.rule for word in item.rules):
            return item
    return None


def _bound(
    rule: RegisteredRule, path: str, uses: list[SuppressionUse], check: object
) -> list[Finding]:
    found = []
    for use in uses:
        hits: Iterable[Hit] = check(use)  # type: ignore[operator]
        for hit in hits:
            seed = f"{rule.card.name}\0{path}\0{use.suppression.rules}\0{use.suppression.reason}"
            found.append(
                to_finding(rule, hit, path, hashlib.sha256(seed.encode()).hexdigest()[:16])
            )
    return found
