"""The rooms of the house import one way, floor by floor (docs/design.md, "The house")."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A room may import the rooms listed for it, and itself; anything else of the project is an error.
GROUND = {"agent", "errors"}
FIRST = {"spec", "source", "store", *GROUND}
SECOND = {"link", "verdict", "preflight", *FIRST}
WIRE = {"agent.bitmap", "agent.frames", "agent.journal", "agent.manifest"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "ctrlc": set(),
    "agent": set(),
    "spec": GROUND,
    "source": GROUND,
    "store": {"errors", *WIRE},
    "link": {"errors", "spec", "source", "store", *WIRE},
    "verdict": FIRST,
    "preflight": {"spec", "errors"},
    "diff": SECOND,
    "report": {"diff", *SECOND},
    "reading": {"report", "diff", *SECOND},
    "outcome": {"report", *SECOND},
    "home": {"outcome", "reading", "report", "diff", *SECOND},
    "finish": {"ctrlc", "outcome", "home", "reading", "report", "diff", *SECOND},
    "resume": {"outcome", "reading", "report", "diff", *SECOND},
    "run": {"finish", "outcome", "report", "diff", *SECOND},
    "rounds": {"reading", "report", "diff", *SECOND},
    "review": {"reading", "rounds", "report", "diff", *SECOND},
    "__main__": {"cli"},
    "cli": {"run", "resume", "finish", "reading", "rounds", "review", "report", "diff", *SECOND},
}
# `preflight` reaches the controller only through `orchestrator.spec`; `guard` reaches nothing.
STANDALONE = {"preflight/guard.py"}


def modules(package: str) -> Iterator[Path]:
    return (ROOT / package).rglob("*.py")


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; spell the room out"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def room_of(dotted: str) -> str | None:
    """The room an absolute dotted name belongs to, or None for other people's packages."""
    parts = dotted.split(".")
    if parts[0] in ("preflight", "kernels"):
        return parts[0]
    if parts[0] != "orchestrator":
        return None
    if len(parts) == 1 or parts[1] in ("__version__", "__init__"):
        return None
    return parts[1]


def violations(path: Path, home: str) -> Iterator[str]:
    allowed = ALLOWED[home] | {home}
    for line, dotted in imported_names(path):
        room = room_of(dotted)
        if room is None or room in allowed:
            continue
        if any(
            dotted.removeprefix("orchestrator.").startswith(name) for name in allowed if "." in name
        ):
            continue
        yield f"{path.relative_to(ROOT)}:{line}: `{home}` may not import `{dotted}`"


def test_rooms_import_only_lower_floors() -> None:
    found = []
    for path in modules("orchestrator"):
        relative = path.relative_to(ROOT / "orchestrator")
        home = relative.parts[0].removesuffix(".py")
        if home != "__init__":
            found += violations(path, home)
    for path in modules("preflight"):
        found += violations(path, "preflight")

    assert found == []


def test_kernels_stand_alone() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: kernels may not import `{dotted}`"
        for path in modules("kernels")
        for line, dotted in imported_names(path)
        if room_of(dotted) not in (None, "kernels")
    ]

    assert found == []


@pytest.mark.parametrize("name", sorted(STANDALONE))
def test_standalone_modules_import_nothing_of_the_project(name: str) -> None:
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not written yet")

    assert [dotted for _, dotted in imported_names(path) if room_of(dotted)] == []


def test_a_forbidden_import_is_seen(tmp_path: Path) -> None:
    planted = ROOT / "orchestrator" / "agent" / "frames.py"
    intruder = tmp_path / "frames.py"
    intruder.write_text("from orchestrator.spec import hosts\n", "utf-8")

    assert planted.parent.name == "agent"
    assert list(imported_names(intruder)) == [(1, "orchestrator.spec.hosts")]
    assert room_of("orchestrator.spec.hosts") not in ALLOWED["agent"]
