"""A process-wide default device: pitfall 1."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.device.factories import DEFAULT_SETTERS, device_text, is_host
from preflight.syntax.python import PythonFile, argument, names_in

RULE = Rule(
    name="default-device-set",
    code="DEV001",
    title="A default device is set for the whole process",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="every tensor made without `device=`, host tables too, lands on the GPU, and each "
    "store "
    "to one of its elements becomes a kernel",
    help='pass `device=` where tensors are made, or use `with torch.device("cuda"):` around the '
    "few that need it",
    needs=(b"set_default_device", b"set_default_tensor_type"),
    fix=Grade.DISPLAY,
    pitfalls=(1,),
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for call in file.calls_to(*DEFAULT_SETTERS):
        if _is_harmless(file, call) or _restores(file, call) or _is_restored(file, call):
            continue
        shown = file.text(call.args[0]) if call.args else "..."
        yield file.hit(file.at(call), f"the default device becomes `{shown}` for the whole process")


def _is_harmless(file: PythonFile, call: ast.Call) -> bool:
    """CPU, meta, None (a reset), or a CPU tensor type."""
    given = argument(call, 0, "device") or argument(call, 0, "t")
    if isinstance(given, ast.Constant) and given.value is None:
        return True
    if is_host(device_text(file, given)):
        return True
    name = file.qualified(given) if given is not None else ""
    kind = device_text(file, given) or name
    return kind.startswith("torch.") and kind.endswith("Tensor") and ".cuda." not in kind


def _restores(file: PythonFile, call: ast.Call) -> bool:
    """`finally: set_default_device(old)`, or `old` was read with `get_default_device`."""
    child: ast.AST = call
    for up in file.ancestors(call):
        if isinstance(up, ast.Try) and any(child is statement for statement in up.finalbody):
            return True
        child = up
    if not call.args:
        return False
    saved = names_in(call.args[0])
    return any(
        isinstance(node.value, ast.Call)
        and file.qualified(node.value.func).endswith("get_default_device")
        and saved & {t.id for t in node.targets if isinstance(t, ast.Name)}
        for node in file.nodes(ast.Assign)
    )


def _is_restored(file: PythonFile, call: ast.Call) -> bool:
    """In a test: another call of the same function undoes it, in `finally` or after a `yield`."""
    if "test" not in file.roles:
        return False
    scope = file.scope_of(call)
    for other, name in file.calls_in(scope):
        if other is call or name not in DEFAULT_SETTERS:
            continue
        yields = [n.lineno for n in ast.walk(scope) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        if _restores(file, other) or any(call.lineno < line < other.lineno for line in yields):
            return True
    return False
