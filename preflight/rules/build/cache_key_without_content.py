"""A binary is reused because a file of that name exists: pitfall 10."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.build.extension_loads import builds_here, knows_content
from preflight.syntax.python import FunctionNode, PythonFile

RULE = Rule(
    name="cache-key-without-content",
    code="BLD002",
    title="A build is skipped because its output exists, whatever its sources say",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="after an edit the old binary runs, and the numbers belong to code that is gone",
    help="key the output by a hash of source bytes, flags, compiler and architecture, or build "
    "into a fresh folder each run",
    needs=(b"exists(", b"isfile(", b"is_file(", b"getmtime(", b"st_mtime"),
    fix=Grade.DISPLAY,
    pitfalls=(10,),
)
_QUESTIONS = frozenset(("exists", "isfile", "is_file", "isdir", "is_dir", "getmtime"))


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "test" in file.roles:
        return
    for branch in file.nodes(ast.If):
        question = _asks_for_output(branch.test)
        function = file.function_of(branch)
        if question is None or function is None or knows_content(file, function):
            continue
        build = _skipped_build(file, branch, function)
        if build is not None:
            yield file.hit(
                file.at(branch.test),
                f"the build is skipped when `{file.text(question)}` says so",
                related=(file.related(file.start(build), "this build is skipped"),),
            )


def _asks_for_output(test: ast.expr) -> ast.Call | None:
    """The `exists` call (or a comparison of modification times) that decides."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            name = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            if name in _QUESTIONS:
                return node
    return None


def _skipped_build(file: PythonFile, branch: ast.If, function: FunctionNode) -> ast.Call | None:
    """The compiler call that runs only if the output is missing.

    Either the build stands in a branch taken when the output does not exist, or the branch taken
    when it exists leaves the function and the build comes later.
    """
    negated = _is_negated(branch.test)
    missing = branch.body if negated else branch.orelse
    for statement in missing:
        build = builds_here(file, statement)
        if build is not None:
            return build
    if not negated and branch.body and isinstance(branch.body[-1], ast.Return):
        for statement in function.body:
            if statement.lineno > branch.lineno:
                build = builds_here(file, statement)
                if build is not None:
                    return build
    return None


def _is_negated(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return any(_is_negated(value) for value in test.values)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
