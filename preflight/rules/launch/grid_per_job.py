"""One block a job for a kernel that should stay resident: pitfall 6."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.cuda import CudaFile, text
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="grid-per-job",
    code="GEO005",
    title="A persistent kernel is launched with one block a job",
    severity=Severity.WARNING,
    profile=Profile.PEDANTIC,
    consequence="blocks queue in waves behind a few SMs, and the time grows with the number of "
    "jobs by a fixed cost each",
    help="launch as many blocks as SMs and hand out jobs with an atomic counter, in the order "
    "they become ready",
    fix=Grade.DISPLAY,
    pitfalls=(6,),
)
_JOBS = re.compile(r"job|token|row|tile|expert|work|batch|problem|item", re.IGNORECASE)
_RESIDENT = re.compile(
    r"\bsms?\b|_sms?\b|sm_?count|multi_?processor|occupancy|min\s*\(|num_sm|persistent",
    re.IGNORECASE,
)


def check_cuda(file: CudaFile, config: Config) -> Iterator[Hit]:
    for launch in file.launches:
        if launch.kernel in config.persistent_kernels and launch.config:
            words = text(launch.config[0])
            if _is_per_job(words):
                yield file.hit(file.at(launch.config[0]), _message(launch.kernel, words))


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if not config.persistent_kernels:
        return
    for call, _ in file.calls:
        if not isinstance(call.func, ast.Subscript):
            continue
        name = file.qualified(call.func.value).rsplit(".", 1)[-1]
        words = file.text(call.func.slice)
        if name in config.persistent_kernels and _is_per_job(words):
            yield file.hit(file.at(call.func.slice), _message(name, words))


def _is_per_job(grid: str) -> bool:
    return bool(_JOBS.search(grid)) and not _RESIDENT.search(grid)


def _message(kernel: str, grid: str) -> str:
    return f"the persistent kernel `{kernel}` is launched with the grid `{grid}`"
