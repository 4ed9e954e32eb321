"""A whole run: choose rules, check files, look across files, settle suppressions."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from preflight.cache import Cache, identity
from preflight.checking import FileResult, bind, check_file
from preflight.config import Config, ConfigError
from preflight.discover import Target, discover
from preflight.finding import Finding, Severity
from preflight.hosts import with_known_hosts
from preflight.rule import RegisteredRule, Registry, registry
from preflight.settle import Settled, settle

PARALLEL_FROM_BYTES = 400_000


class Scope(Enum):
    """Which rules report: those of single files, those that see the whole project, or both."""

    FILES = "files"
    REPO = "repo"
    ALL = "all"


@dataclass(frozen=True)
class Options:
    """What the command line adds to the configuration."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    scope: Scope = Scope.ALL
    cache: bool = True
    ignores: bool = True
    jobs: int = 0


@dataclass(frozen=True)
class Report:
    """Everything a reporter needs. Findings are sorted by path and place."""

    root: Path
    findings: tuple[Finding, ...]
    suppressed: tuple[Settled, ...]
    files: int
    skipped_functions: int
    unknown_hosts: bool
    elapsed_s: float

    def blocking(self, strict: bool) -> tuple[Finding, ...]:
        """Findings that make the run fail."""
        floor = Severity.WARNING if strict else Severity.ERROR
        return tuple(finding for finding in self.findings if finding.severity >= floor)


def run(paths: Iterable[Path], config: Config, options: Options | None = None) -> Report:
    """Lint the given files and folders. Raises PathMissing and ConfigError."""
    options = options or Options()
    start = time.perf_counter()
    config = with_known_hosts(config)
    rules = registry()
    active = active_rules(rules, config, options)
    targets = discover(paths, config)
    results = _check_all(targets, active, config, options)
    if options.scope is not Scope.FILES:
        results = _with_project_hits(targets, results, active, config)
    settled = settle(results, active, rules, config, options.scope is Scope.FILES, options.ignores)
    findings = settled.findings
    if options.scope is Scope.REPO:
        findings = tuple(f for f in findings if _is_repo_finding(rules[f.rule]))
    return Report(
        root=config.root,
        findings=findings,
        suppressed=settled.suppressed,
        files=len(targets),
        skipped_functions=sum(result.skipped_functions for result in results),
        unknown_hosts=not config.hosts and any(t.language == "cuda" for t in targets),
        elapsed_s=time.perf_counter() - start,
    )


def active_rules(rules: Registry, config: Config, options: Options) -> list[RegisteredRule]:
    """The rules of this run: the profile's, plus the selected, minus the ignored.

    `--select` on the command line replaces the profile; `select` in the configuration adds to it.
    """
    for rule in config.severity:
        expand_all(rules, (rule,), "severity")
    if options.select:
        chosen = expand_all(rules, options.select, "--select")
    else:
        chosen = frozenset(
            r.card.name
            for r in rules
            if r.card.profile <= config.profile and (config.preview or not r.card.preview)
        ) | expand_all(rules, config.select, "select")
    dropped = expand_all(rules, (*config.ignore, *options.ignore), "ignore")
    return [rule for rule in rules if rule.card.name in chosen - dropped]


def expand_all(rules: Registry, words: Iterable[str], where: str) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for word in words:
        names = rules.expand(word)
        if names is None:
            near = rules.nearest(word)
            hint = f"did you mean `{near}`?" if near else "run `preflight rules` for the list"
            raise ConfigError(f"`{where}`: there is no rule `{word}`; {hint}")
        found |= names
    return found


def _is_repo_finding(rule: RegisteredRule) -> bool:
    return rule.checker("check_project") is not None or rule.card.group == "SUP"


@dataclass(frozen=True)
class _Pending:
    target: Target
    data: bytes
    digest: str
    facts: os.stat_result


def _check_all(
    targets: list[Target], active: list[RegisteredRule], config: Config, options: Options
) -> list[FileResult]:
    names = [rule.card.name for rule in active]
    cache = Cache(config.root, identity(config, names)) if options.cache else None
    results: dict[str, FileResult] = {}
    pending = []
    now_ns = time.time_ns()
    if cache:
        cache.load()
    for target in targets:
        facts = target.absolute.stat()
        known = cache.fresh(target.path, facts) if cache else None
        if known is None:
            data = target.absolute.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            known = cache.same_bytes(target.path, digest, facts, now_ns) if cache else None
            if known is None:
                pending.append(_Pending(target, data, digest, facts))
        if known is not None:
            results[target.path] = known
    for item, result in zip(pending, _check_pending(pending, names, config, options), strict=True):
        results[result.path] = result
        if cache:
            cache.put(result, item.digest, item.facts, now_ns)
    if cache:
        cache.store()
    return [results[target.path] for target in targets]


def _check_pending(
    pending: list[_Pending], names: list[str], config: Config, options: Options
) -> list[FileResult]:
    jobs = options.jobs or os.cpu_count() or 1
    work = [(item.target.path, item.data, item.target.language) for item in pending]
    if (
        jobs == 1
        or len(pending) < 4
        or sum(len(item.data) for item in pending) < PARALLEL_FROM_BYTES
    ):
        return _check_batch(work, names, config)
    return _check_parallel(work, names, config, jobs)


def _check_parallel(
    work: list[tuple[str, bytes, str]], names: list[str], config: Config, jobs: int
) -> list[FileResult]:
    from concurrent.futures import ProcessPoolExecutor

    order = sorted(range(len(work)), key=lambda index: -len(work[index][1]))
    batches = [order[start :: jobs * 2] for start in range(jobs * 2)]
    results: dict[int, FileResult] = {}
    with ProcessPoolExecutor(jobs) as pool:
        futures = [
            (batch, pool.submit(_check_batch, [work[i] for i in batch], names, config))
            for batch in batches
            if batch
        ]
        for batch, future in futures:
            results.update(zip(batch, future.result(), strict=True))
    return [results[index] for index in range(len(work))]


def _check_batch(
    work: list[tuple[str, bytes, str]], names: list[str], config: Config
) -> list[FileResult]:
    known = registry()
    rules = [known[name] for name in names]
    return [check_file(path, data, language, rules, config) for path, data, language in work]


def _with_project_hits(
    targets: list[Target], results: list[FileResult], active: list[RegisteredRule], config: Config
) -> list[FileResult]:
    """Add what the cross-file rules found to the results of the files they point at."""
    from preflight.project import Project

    project = Project(targets, config)
    by_path: dict[str, list[tuple[RegisteredRule, object]]] = {}
    for rule in active:
        check = rule.checker("check_project")
        for hit in check(project) if check else ():
            by_path.setdefault(hit.path, []).append((rule, hit))
    merged = []
    for result in results:
        hits = by_path.pop(result.path, [])
        extra = bind(hits, project.source(result.path)) if hits else ()  # type: ignore[arg-type]
        merged.append(
            FileResult(
                result.path,
                (*result.findings, *extra),
                result.suppressions,
                result.skipped_functions,
            )
        )
    return merged
