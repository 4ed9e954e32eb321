"""`cuda` means the current device: setting it as default before the rank picks one is a race."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.device.factories import device_text, is_cuda
from preflight.source import unsafe
from preflight.syntax.python import PythonFile, argument

RULE = Rule(
    name="default-device-before-rank",
    code="DEV002",
    title="The default device is set before the rank has chosen its GPU",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="tensors made between the two calls land on GPU 0 in every rank, which then runs "
    "out of memory or "
    "mixes devices",
    help="call `torch.cuda.set_device(rank)` first, or name the device with its index",
    needs=(b"set_default_device",),
    fix=Grade.UNSAFE,
    pitfalls=(1,),
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    for call in file.calls_to("torch.set_default_device"):
        device = device_text(file, argument(call, 0, "device"))
        if not is_cuda(device) or ":" in (device or ""):
            continue
        scope = file.scope_of(call)
        choices = [c for c, name in file.calls_in(scope) if name == "torch.cuda.set_device"]
        later = [c for c in choices if c.lineno > call.lineno]
        if later and len(later) == len(choices):
            yield file.hit(
                file.at(call),
                f"the default device `{device}` has no index and is set before "
                "`torch.cuda.set_device`",
                fix=_swap(file, call, later[0]),
                related=(file.related(file.start(later[0]), "the rank chooses its GPU here"),),
            )


def _swap(file: PythonFile, first: ast.Call, second: ast.Call) -> Fix | None:
    """Exchange the two statements when both stand alone in the same block."""
    early, late = file.statement_of(first), file.statement_of(second)
    alone = isinstance(early, ast.Expr) and isinstance(late, ast.Expr)
    if not alone or file.parent(early) is not file.parent(late):
        return None
    return unsafe(
        "choose the GPU first",
        Edit(file.start(early), file.end(early), file.text(late)),
        Edit(file.start(late), file.end(late), file.text(early)),
    )
