"""A tensor factory that follows somebody else's default device: pitfall 1's victim."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.config import matches
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.rules.device.default_device_set import check_python as default_device_hits
from preflight.rules.device.factories import FACTORIES, in_jit_body
from preflight.syntax.python import PythonFile, has_double_star, keyword

RULE = Rule(
    name="factory-without-device",
    code="DEV003",
    title="A tensor is made without `device=` where a default device is in force",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="the tensor moves to the GPU as soon as a caller sets a default device, and the "
    "code that reads it "
    "on the host becomes slow or fails",
    help='write `device="cpu"` for host tables, or the device that is meant',
    fix=Grade.DISPLAY,
    pitfalls=(1,),
)


def check_project(project: Project) -> Iterator[Hit]:
    for path in sorted(_exposed_files(project)):
        file = project.python(path)
        if file is None:
            continue
        for call in file.calls_to(*FACTORIES):
            if keyword(call, "device") or has_double_star(call) or in_jit_body(file, call):
                continue
            if not _is_scoped(file, call) and not _copies_device(file, call):
                name = file.qualified(call.func)
                yield file.hit(file.at(call), f"`{name}` follows the default device of the process")


def _exposed_files(project: Project) -> set[str]:
    """Files under `device-explicit`, files that set a default device, and what those import.

    A test that sets one speaks for itself only, not for the library it imports.
    """
    setters = [
        path
        for path in project.paths("python")
        if RULE_NEEDS in project.read(path)
        and (file := project.python(path))
        and any(True for _ in default_device_hits(file, project.config))
    ]
    found = {p for p in project.paths("python") if matches(p, project.config.device_explicit)}
    while setters:
        path = setters.pop()
        if path in found and path not in project.config.device_explicit:
            continue
        found.add(path)
        file = project.python(path)
        if file is None or "test" in file.roles:
            continue
        for name in set(file.aliases.values()):
            setters += [p for p in project.module_paths(name, path) if p not in found]
    return found


RULE_NEEDS = b"set_default_"


def _is_scoped(file: PythonFile, call: ast.Call) -> bool:
    """Inside `with torch.device(...)`."""
    for up in file.ancestors(call):
        if isinstance(up, (ast.With, ast.AsyncWith)):
            for item in up.items:
                context = item.context_expr
                if isinstance(context, ast.Call) and file.qualified(context.func) == "torch.device":
                    return True
    return False


def _copies_device(file: PythonFile, call: ast.Call) -> bool:
    """`.to(...)`, `.cpu()`, `.cuda()` directly on the result names the device after all."""
    parent = file.parent(call)
    return isinstance(parent, ast.Attribute) and parent.attr in ("to", "cpu", "cuda", "type_as")
