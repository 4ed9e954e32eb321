"""A call that may wait for ever: one hang costs the whole round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import unsafe
from preflight.syntax.python import PythonFile, has_double_star, keyword

RULE = Rule(
    name="call-without-timeout",
    code="ERR003",
    title="A process or remote call has no deadline",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="a spinning kernel or a dead link hangs the run, and nothing after it is measured",
    help="give it `timeout=` and handle the expiry",
    needs=(b"subprocess", b"communicate", b"exec_command", b"fabric"),
    fix=Grade.UNSAFE,
)
_CALLS = frozenset(
    f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput")
)
_NO_TIMEOUT_POSSIBLE = frozenset(("subprocess.getoutput",))
_INSERTED_S = 600
_INSTANT = frozenset(
    ("true", "false", "echo", "uname", "hostname", "whoami", "pwd", "date", "nproc")
)
_QUESTIONS = frozenset(("--version", "-V"))
_LOCAL_GIT = frozenset(
    ("branch", "describe", "diff", "log", "ls-files", "rev-parse", "show", "status")
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if "step" not in file.roles or "test" in file.roles:
        return
    processes = _process_names(file)
    connections = _connection_names(file)
    for call, name in file.calls:
        if has_double_star(call) or keyword(call, "timeout") is not None:
            continue
        shown = _waits_for_ever(call, name, processes, connections)
        if shown and not _is_quick_question(call):
            yield file.hit(
                file.at(call), f"`{shown}` has no timeout", fix=_insert(file, call, name)
            )


def _waits_for_ever(
    call: ast.Call, name: str, processes: set[str], connections: set[str]
) -> str | None:
    if name in _CALLS:
        return name
    owner, _, method = name.rpartition(".")
    if method in ("communicate", "wait") and owner in processes and not call.args:
        return f"{owner}.{method}"
    if method in ("run", "sudo") and owner in connections:
        return f"{owner}.{method}"
    if method == "exec_command" and owner in connections:
        return f"{owner}.{method}"
    return None


def _process_names(file: PythonFile) -> set[str]:
    return _made_by(file, frozenset(("subprocess.Popen",)))


def _connection_names(file: PythonFile) -> set[str]:
    return _made_by(
        file, frozenset(("fabric.Connection", "fabric2.Connection", "paramiko.SSHClient"))
    )


def _made_by(file: PythonFile, makers: frozenset[str]) -> set[str]:
    found: set[str] = set()
    for node in file.nodes(ast.Assign):
        if isinstance(node.value, ast.Call) and file.qualified(node.value.func) in makers:
            found |= {file.qualified(target) for target in node.targets} - {""}
    for item in file.nodes(ast.withitem):
        context = item.context_expr
        made = isinstance(context, ast.Call) and file.qualified(context.func) in makers
        if made and isinstance(item.optional_vars, ast.Name):
            found.add(item.optional_vars.id)
    return found


def _is_quick_question(call: ast.Call) -> bool:
    """A constant argv that ends at once: a version, a revision, or a program such as `true`."""
    first = call.args[0] if call.args else None
    if not isinstance(first, (ast.List, ast.Tuple)):
        return False
    words = [item.value for item in first.elts if isinstance(item, ast.Constant)]
    if not words or len(words) != len(first.elts):
        return False
    if words[0] == "git" and len(words) > 1 and words[1] in _LOCAL_GIT:
        return True
    return words[0] in _INSTANT or bool(_QUESTIONS & set(map(str, words)))


def _insert(file: PythonFile, call: ast.Call, name: str) -> Fix | None:
    if name in _NO_TIMEOUT_POSSIBLE:
        return None
    return unsafe(f"give it {_INSERTED_S} s", file.insert_argument(call, f"timeout={_INSERTED_S}"))
