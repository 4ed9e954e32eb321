"""Atomic updates across PCIe lose increments: pitfall 2."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile
from preflight.syntax.ptx import is_system_atomic
from preflight.syntax.python import PythonFile, keyword, text_of

RULE = Rule(
    name="system-atomic-on-pcie",
    code="SYN001",
    title="A system-scope atomic runs on a host whose GPUs are connected by PCIe",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="increments from another GPU can be lost over PCIe, the counter never fills, and "
    "the waiting block spins "
    "for ever",
    help="elect one writer with a local atomic, and let it publish with a single `st.release.sys`",
    fix=Grade.DISPLAY,
    pitfalls=(2,),
)
_MARKS = (b"sys", b"_system")


def check_project(project: Project) -> Iterator[Hit]:
    seen: set[tuple[str, int]] = set()
    for experiment in project.experiments:
        host = project.config.hosts.get(experiment.host_name or "")
        if host is None or (host.interconnect or "").lower() != "pcie":
            continue
        for path in sorted(project.code_of(experiment)):
            for hit in _hits(project, path, host.name):
                if (path, hit.span.start_byte) not in seen:
                    seen.add((path, hit.span.start_byte))
                    yield hit


def _hits(project: Project, path: str, host: str) -> Iterator[Hit]:
    if not any(mark in project.read(path) for mark in _MARKS):
        return
    if path.endswith((".py", ".pyi")):
        python = project.python(path)
        if python is not None:
            yield from _triton(python, host)
    else:
        cuda = project.cuda(path)
        if cuda is not None:
            yield from _cuda(cuda, host)


def _cuda(file: CudaFile, host: str) -> Iterator[Hit]:
    for function in file.clean_functions:
        for call in function.calls:
            if call.name.startswith("atomic") and call.name.endswith("_system"):
                yield file.hit(file.at(call.node), _message(call.name, host))
        for asm in function.asms:
            for instruction in asm.instructions:
                if is_system_atomic(instruction):
                    yield file.hit(file.at(asm.node), _message(instruction.opcode, host))


def _triton(file: PythonFile, host: str) -> Iterator[Hit]:
    for call, name in file.calls:
        if ".atomic_" in name and text_of(keyword(call, "scope")) == "sys":
            yield file.hit(file.at(call), _message(f'{name.rsplit(".", 1)[-1]}(scope="sys")', host))


def _message(what: str, host: str) -> str:
    return f"`{what}` runs on host `{host}`, whose interconnect is PCIe"
