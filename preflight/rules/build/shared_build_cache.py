"""An experiment that runs with the caches of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import unsafe
from preflight.syntax.yaml import YamlFile, entries, item, items, scalar

RULE = Rule(
    name="shared-build-cache",
    code="BLD003",
    title="An experiment reuses build caches of earlier runs",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="a binary built from other sources, flags or for another GPU may be what runs, "
    "and nothing in the result "
    "shows it",
    help="leave `caches` at `isolated` (or `cleared`) and let the run choose the cache folders",
    needs=(b"caches", b"CACHE", b"EXTENSIONS_DIR"),
    fix=Grade.UNSAFE,
    pitfalls=(10,),
)
CACHE_VARIABLES = frozenset(
    (
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "CUDA_CACHE_PATH",
        "TRITON_HOME",
    )
)


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    if "experiment" not in file.top_level:
        return
    caches = file.get("caches")
    if caches is not None and scalar(caches) == "kept":
        yield file.hit(
            file.at(caches),
            "`caches: kept` carries compiled kernels over from earlier runs",
            fix=unsafe("use fresh caches", file.replace(caches, "isolated")),
        )
    for scope in (file.root, *items(file.get("steps"))):
        for key, value in entries(item(scope, "env") if scope else None):
            folder = scalar(value)
            if key.value in CACHE_VARIABLES and folder and "{" not in folder and "$" not in folder:
                yield file.hit(
                    file.at(value), f"`{key.value}` is one fixed folder, `{folder}`, for all runs"
                )
