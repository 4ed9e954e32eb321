"""The `preflight` command: arguments in, one call, words out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from preflight import __version__
from preflight.config import Config, ConfigError, find_root, load_config
from preflight.discover import PathMissing
from preflight.engine import Options, Report, Scope, run
from preflight.finding import Profile

CLEAN, FINDINGS, BROKEN = 0, 1, 2
FORMATS = {
    "full": "full",
    "concise": "concise",
    "json": "json",
    "json-v1": "json",
    "sarif": "sarif",
    "github": "github",
}
COMMANDS = {
    "barriers": "preflight.barriers",
    "schedule": "preflight.schedule_command",
    "config": "preflight.config_command",
    "rules": "preflight.rules_command",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 when clean, 1 with blocking findings, 2 when it cannot run."""
    words = list(sys.argv[1:] if argv is None else argv)
    _speak_utf8()
    try:
        if words and words[0] in COMMANDS and not Path(words[0]).exists():
            command: Callable[[list[str]], int] = import_module(COMMANDS[words[0]]).main
            return command(words[1:])
        return check(parser().parse_args(words))
    except (ConfigError, PathMissing) as error:
        sys.stderr.write(f"preflight: {error}\n")
        return BROKEN


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="preflight",
        description="Find the mistakes that waste a GPU run, before the run.",
        epilog="Further commands: preflight barriers | schedule | config | rules (each with "
        "--help). "
        "Exit: 0 clean, 1 findings, 2 the linter could not run.",
    )
    top.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders [.]")
    top.add_argument("--select", metavar="RULES", help="only these rules, codes or groups")
    top.add_argument("--ignore", metavar="RULES", help="leave these out")
    top.add_argument("--profile", choices=[p.word for p in Profile], help="regular [default], ...")
    top.add_argument("--preview", action="store_true", help="also run rules new in this version")
    top.add_argument("--strict", action="store_true", help="warnings fail the run too")
    top.add_argument("--fix", action="store_true", help="apply safe fixes")
    top.add_argument("--unsafe-fixes", action="store_true", help="apply fixes that need a review")
    top.add_argument("--diff", action="store_true", help="print what the fixes would change")
    top.add_argument("--output-format", choices=sorted(FORMATS), default="full")
    top.add_argument("--output-file", type=Path, metavar="FILE", help="write the report there")
    top.add_argument("--explain", metavar="RULE", help="print the page of a rule")
    top.add_argument("--config", type=Path, metavar="FILE", help="a pyproject.toml [nearest]")
    top.add_argument("--scope", choices=[s.value for s in Scope], help="files, repo or all")
    top.add_argument("--no-ignores", action="store_true", help="show suppressed findings too")
    top.add_argument("--no-cache", action="store_true", help="check every file anew")
    top.add_argument("--jobs", type=int, default=0, metavar="N", help="processes [one a core]")
    top.add_argument("--statistics", action="store_true", help="count findings by rule")
    top.add_argument("--version", action="version", version=f"preflight {__version__}")
    return top


def check(arguments: argparse.Namespace) -> int:
    if arguments.explain:
        return _explain(arguments.explain)
    paths = arguments.paths or [Path()]
    config = configured(arguments, paths)
    options = Options(
        select=_words(arguments.select),
        ignore=_words(arguments.ignore),
        scope=_scope(arguments.scope, paths),
        cache=not arguments.no_cache,
        ignores=not arguments.no_ignores,
        jobs=arguments.jobs,
    )
    if arguments.fix or arguments.unsafe_fixes or arguments.diff:
        from preflight.fix_command import apply_fixes

        return apply_fixes(
            paths,
            config,
            options,
            unsafe=arguments.unsafe_fixes,
            diff_only=arguments.diff,
            output_format=FORMATS[arguments.output_format],
        )
    report = run(paths, config, options)
    text = _statistics(report) if arguments.statistics else render(report, arguments.output_format)
    if arguments.output_file:
        arguments.output_file.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    return FINDINGS if report.blocking(config.strict) else CLEAN


def configured(arguments: argparse.Namespace, paths: list[Path]) -> Config:
    """The configuration of the project around the first path, with the command line on top."""
    root = find_root(arguments.config or (paths[0] if len(paths) == 1 else Path()))
    config = load_config(root, arguments.config)
    changes: dict[str, object] = {}
    if arguments.profile:
        changes["profile"] = Profile[arguments.profile.upper()]
    if arguments.preview:
        changes["preview"] = True
    if arguments.strict:
        changes["strict"] = True
    return replace(config, **changes)  # type: ignore[arg-type]


def render(report: Report, output_format: str) -> str:
    module = import_module(f"preflight.reporters.{FORMATS[output_format]}")
    text: str = module.render(report)
    return text


def _scope(word: str | None, paths: list[Path]) -> Scope:
    """Cross-file rules need the whole tree: single files get the rules of single files."""
    if word:
        return Scope(word)
    return Scope.ALL if any(path.is_dir() for path in paths) else Scope.FILES


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def _explain(word: str) -> int:
    from preflight.rules_command import page

    sys.stdout.write(page(word))
    return CLEAN


def _statistics(report: Report) -> str:
    from collections import Counter

    from preflight.reporters.concise import summary

    counts = Counter(finding.rule for finding in report.findings)
    rows = [f"{count:6d}  {rule}" for rule, count in counts.most_common()]
    return "\n".join([*rows, summary(report)]) + "\n"


def _speak_utf8() -> None:
    """A legacy console must not end the run because a source line holds a character it lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
