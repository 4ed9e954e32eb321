"""Without an attribute the line endings depend on each clone's settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.rules.text.git_facts import eol_attribute, eol_facts

RULE = Rule(
    name="eol-attribute-missing",
    code="TXT002",
    title="git may check a file out with CRLF",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="a clone with `core.autocrlf=true` (the default of Git for Windows) gets CRLF: "
    "scripts die on their first line on the host, and the tree's hash is not the one git stores",
    help="add the line shown to .gitattributes",
    fix=Grade.DISPLAY,
    pitfalls=(9,),
)
_SUFFIXES = frozenset((".sh", ".bash", ".py", ".yaml", ".yml", ".cu", ".cuh"))


def check_project(project: Project) -> Iterator[Hit]:
    """One hit a kind of file, at the first file of that kind; also files git stores with CRLF."""
    scripts = [p for p in project.targets if PurePosixPath(p).suffix in _SUFFIXES]
    tracked = eol_facts(project.root, scripts) if scripts else {}
    ours = [path for path in scripts if path in tracked]
    attributes = eol_attribute(project.root, ours) if ours else {}
    missing: dict[str, list[str]] = {}
    for path in ours:
        text, eol = attributes.get(path, ("", ""))
        if eol != "lf" and text != "unset":
            missing.setdefault(PurePosixPath(path).suffix, []).append(path)
        if tracked[path].index in ("crlf", "mixed"):
            yield _hit(
                project,
                path,
                f"git stores this file with {tracked[path].index} line endings",
                help="run `git add --renormalize .` after setting the attribute, and commit",
            )
    for suffix, paths in sorted(missing.items()):
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        yield _hit(
            project,
            paths[0],
            f"no `eol=lf` attribute for this `*{suffix}` file{more}",
            help=f"add `*{suffix} text eol=lf` to .gitattributes",
        )


def _hit(project: Project, path: str, message: str, help: str) -> Hit:
    source = project.source(path)
    return source.hit(source.line_span(1), message, help=help)
