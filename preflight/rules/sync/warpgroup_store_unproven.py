"""The rows a warpgroup store writes depend on the number of warps: pitfall 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from preflight.finding import Grade, Hit, Profile, Severity
from preflight.project import Project
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile, text

RULE = Rule(
    name="warpgroup-store-unproven",
    code="LAY001",
    title="A warpgroup register store has no test of its row map",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="rows can come out permuted: the result is almost right, and a tolerance hides it",
    help="write a test that stores the row number and compares exactly, and mark it "
    "`covers[row-map]` with the kernel's "
    "file name",
    fix=Grade.DISPLAY,
    pitfalls=(3,),
)
_MARKER = "covers[row-map]"
_GROUP_STORE = re.compile(r"\b(?:warpgroup|group\s*<[^>]*>|consumer|WG|G)\s*::\s*store$")


def check_project(project: Project) -> Iterator[Hit]:
    covered = _covered_stems(project)
    for path in project.paths("cuda"):
        if b"kittens" not in project.read(path) or "include/" in path:
            continue
        if PurePosixPath(path).stem in covered:
            continue
        file = project.cuda(path)
        if file is not None:
            yield from _stores(file)


def _stores(file: CudaFile) -> Iterator[Hit]:
    for function in file.clean_functions:
        for call in function.calls_to("store"):
            target = call.node.child_by_field_name("function")
            if target is not None and _GROUP_STORE.search(text(target)):
                yield file.hit(
                    file.at(call.node),
                    f"no test proves which rows `{text(target)}` in `{function.name}` writes",
                )


def _covered_stems(project: Project) -> set[str]:
    """Stems of kernel files that a marked test names on the marker's line."""
    found: set[str] = set()
    for path in project.paths("python", "cuda"):
        data = project.read(path)
        if _MARKER.encode() in data and "test" in project.config.roles(path):
            for line in data.decode("utf-8", "replace").splitlines():
                if _MARKER in line:
                    found |= {PurePosixPath(word.strip("`,.()")).stem for word in line.split()}
    return found
