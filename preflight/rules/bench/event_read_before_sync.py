"""Reading an event pair before the end event has happened."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import unsafe
from preflight.syntax.python import FunctionNode, PythonFile

RULE = Rule(
    name="event-read-before-sync",
    code="BEN002",
    title="`elapsed_time` is read before the end event has completed",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="CUDA answers 'not ready' and the run ends with an error, or an older recording "
    "of the events is read",
    help="call `end.synchronize()` (or `torch.cuda.synchronize()`) before `elapsed_time`",
    needs=(b"elapsed_time",),
    fix=Grade.UNSAFE,
)
_WAITING = ("sync", "wait", "barrier", "item", "cpu", "tolist", "numpy", "query")


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for call, _ in file.calls:
        if (
            not isinstance(call.func, ast.Attribute)
            or call.func.attr != "elapsed_time"
            or len(call.args) != 1
        ):
            continue
        end = call.args[0]
        scope = file.scope_of(call)
        record = _last_record(file, scope, end, call.lineno)
        if record is None or _waits_between(file, scope, record, call):
            continue
        shown = file.text(end)
        statement = file.statement_of(call)
        simple = not hasattr(statement, "body") and isinstance(end, (ast.Name, ast.Attribute))
        yield file.hit(
            file.at(call),
            f"`elapsed_time` is read although nothing has waited for `{shown}`",
            fix=unsafe(
                f"wait for `{shown}`", file.insert_line_before(statement, f"{shown}.synchronize()")
            )
            if simple
            else None,
            related=(file.related(file.start(record), f"`{shown}` is recorded here"),),
        )


def _last_record(
    file: PythonFile, scope: FunctionNode | ast.Module, end: ast.expr, before: int
) -> ast.Call | None:
    """The last `end.record()` above the reading, in the same function and of the same event."""
    wanted = ast.dump(end)
    found = [
        call
        for call, _ in file.calls_in(scope)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "record"
        and ast.dump(call.func.value) == wanted
        and call.lineno < before
        and file.scope_of(call) is scope
    ]
    return max(found, key=lambda call: call.lineno) if found else None


def _waits_between(
    file: PythonFile, scope: FunctionNode | ast.Module, record: ast.Call, read: ast.Call
) -> bool:
    """Any call between recording and reading that may wait, unknown local helpers included."""
    for call, name in file.calls_in(scope):
        if not record.lineno <= call.lineno <= read.lineno or call in (record, read):
            continue
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name
        if any(word in last.lower() for word in _WAITING):
            return True
        helper = file.functions.get(last)
        if helper is not None and any(
            "sync" in inner.rsplit(".", 1)[-1] for _, inner in file.calls_in(helper)
        ):
            return True
    return False
