"""torch.compile in a loop makes a new compiled object each time round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.compile.compiled_functions import COMPILE_MARKS
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="compile-in-loop",
    code="CMP005",
    title="torch.compile is called inside a loop",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="each round wraps the function anew, guards are checked from nothing, and compile "
    "time is counted "
    "as run time",
    help="compile once before the loop, or decorate the function",
    needs=COMPILE_MARKS,
    fix=Grade.DISPLAY,
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for call in file.calls_to("torch.compile"):
        loop = _loop_around(file, call)
        if loop is not None:
            yield file.hit(
                file.at(call),
                "`torch.compile` is called on every round of a loop",
                related=(file.related(file.start(loop), "the loop"),),
            )


def _loop_around(file: PythonFile, call: ast.Call) -> ast.For | ast.While | None:
    """The loop whose body runs the call; functions between them may be called once only.

    A loop over variants (the compiled thing or its options depend on the loop variable) compiles
    each variant once, as intended.
    """
    for up in file.ancestors(call):
        if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            return None
        if isinstance(up, ast.While):
            return up
        if isinstance(up, ast.For):
            names = {n.id for n in ast.walk(up.target) if isinstance(n, ast.Name)}
            made = names | _made_in(up, file.statement_of(call))
            used = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            return None if used & made else up
    return None


def _made_in(loop: ast.For, own: ast.stmt) -> set[str]:
    """Names other statements bind anew on each round: a fresh model needs a fresh compile."""
    found: set[str] = set()
    skipped = set(ast.walk(own))
    for node in ast.walk(loop):
        if node in skipped:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found
