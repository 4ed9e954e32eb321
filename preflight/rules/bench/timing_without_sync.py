"""A wall clock around an asynchronous launch measures the launch."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.bench.timed_regions import gpu_knowledge, timed_regions
from preflight.syntax.python import PythonFile

RULE = Rule(
    name="timing-without-sync",
    code="BEN001",
    title="GPU work is timed by the wall clock without a synchronisation",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="the clock stops when the launch is queued, so the number is launch overhead and "
    "not the kernel's time",
    help="call `torch.cuda.synchronize()` before each clock read, or time with CUDA events or "
    "`triton.testing.do_bench`",
    needs=(b"perf_counter", b"time.time", b"monotonic", b"default_timer", b"from time"),
    fix=Grade.DISPLAY,
)


def check_python(file: PythonFile, config: Config) -> Iterator[Hit]:
    if b"torch" not in file.data and b"triton" not in file.data:
        return
    regions = timed_regions(file)
    if not regions:
        return
    gpu = gpu_knowledge(file)
    for region in regions:
        if _measures_something_else(region.start) or gpu.waits((*region.body, region.end)):
            continue
        launch = gpu.launch_in(region.body, file.scope_of(region.begin))
        if launch is not None:
            yield file.hit(
                file.at(region.end),
                "the clock is read while GPU work may still run",
                related=(
                    file.related(file.start(region.begin), "the clock starts here"),
                    file.related(file.start(launch), "this starts GPU work"),
                ),
            )


def _measures_something_else(name: str) -> bool:
    """The name says that the launch, the compilation or the loading is what is measured."""
    return any(
        word in name.lower()
        for word in ("compil", "launch", "host", "cpu", "load", "init", "build", "dispatch")
    )
