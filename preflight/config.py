"""`[tool.preflight]` of pyproject.toml: typed, defaults in one place, unknown keys refused."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from preflight.finding import Profile, Severity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_STEP_PATHS = (
    "orchestrator/**",
    "experiments/**",
    "kernels/**/bench*.py",
    "kernels/**/check*.py",
    "benchmarks/**",
    "benchmark/**",
    "bench/**",
    "scripts/**",
    "run_*.py",
    "worker*.py",
)
DEFAULT_TEST_PATHS = (
    "**/tests/**",
    "**/test/**",
    "**/testing/**",
    "**/test_*.py",
    "**/*_test.py",
    "**/conftest.py",
)
DEFAULT_BENCH_PATHS = ("**/bench*/**", "**/bench*.py", "**/*_bench.py", "**/*benchmark*.py")


class ConfigError(Exception):
    """The configuration cannot be used; the text names the file, the key and the way out."""


@dataclass(frozen=True)
class Host:
    """What is known of a GPU host. None means unknown, and rules that need it stay silent."""

    name: str
    arch: str | None = None
    sms: int | None = None
    gpus: int | None = None
    smem_optin: int | None = None
    max_threads: int | None = None
    interconnect: str | None = None


@dataclass(frozen=True)
class Config:
    """Every setting. Field names are the keys of `[tool.preflight]` with `-` for `_`."""

    root: Path
    profile: Profile = Profile.REGULAR
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    severity: Mapping[str, Severity] = field(default_factory=dict)
    preview: bool = False
    strict: bool = False
    cuda_macros: tuple[str, ...] = ()
    container_paths: tuple[str, ...] = ()
    device_explicit: tuple[str, ...] = ()
    persistent_kernels: tuple[str, ...] = ()
    test_paths: tuple[str, ...] = DEFAULT_TEST_PATHS
    bench_paths: tuple[str, ...] = DEFAULT_BENCH_PATHS
    step_paths: tuple[str, ...] = DEFAULT_STEP_PATHS
    experiments: tuple[str, ...] = ("**/*.yaml", "**/*.yml")
    torch: str = ""
    hosts: Mapping[str, Host] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def roles(self, path: str) -> frozenset[str]:
        """What a file is, by its path below the root: any of test, benchmark, step."""
        table = (
            ("test", self.test_paths),
            ("benchmark", self.bench_paths),
            ("step", self.step_paths),
        )
        return frozenset(role for role, globs in table if matches(path, globs))

    @property
    def torch_version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.torch.split(".")[:2] if part.isdigit())


def matches(path: str, globs: tuple[str, ...]) -> bool:
    """Whether a relative path matches a glob; `**/x` also matches `x`, `dir/**` all below `dir`."""
    for glob in globs:
        if fnmatch(path, glob) or (glob.startswith("**/") and fnmatch(path, glob[3:])):
            return True
        if glob.endswith("/") and path.startswith(glob):
            return True
        if "/" not in glob and "*" not in glob and (path == glob or path.startswith(f"{glob}/")):
            return True
    return False


def find_root(start: Path) -> Path:
    """The nearest folder upwards with a pyproject.toml that has our table, else with `.git`."""
    start = start.resolve()
    folder = start if start.is_dir() else start.parent
    for candidate in (folder, *folder.parents):
        pyproject = candidate / "pyproject.toml"
        if pyproject.is_file() and b"[tool.preflight" in pyproject.read_bytes():
            return candidate
        if (candidate / ".git").exists():
            return candidate
    return folder


def load_config(root: Path, pyproject: Path | None = None) -> Config:
    """Read the table, or the defaults when there is none. Raises ConfigError."""
    path = pyproject or root / "pyproject.toml"
    if not path.is_file():
        if pyproject:
            raise ConfigError(
                f"`{path}`: no such configuration file; check the path after --config"
            )
        return Config(root)
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}; correct it and run again") from error
    return parse_table(root, document.get("tool", {}).get("preflight", {}), str(path))


def parse_table(root: Path, table: Mapping[str, Any], origin: str) -> Config:
    """Turn one table into a Config; each unknown key or wrong type raises ConfigError."""
    known = {f.name.replace("_", "-"): f.name for f in fields(Config)}
    known.pop("root")
    known.pop("origins")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise ConfigError(
                f"{origin}: [tool.preflight] has no key `{key}`{_near(key, list(known))}"
            )
        values[known[key]] = _convert(key, value, origin)
    origins = dict.fromkeys(values, origin)
    return replace(Config(root), **values, origins=origins)


def _convert(key: str, value: Any, origin: str) -> Any:
    where = f"{origin}: [tool.preflight] `{key}`"
    match key:
        case "profile":
            return _choice(Profile, value, where)
        case "preview" | "strict":
            return _typed(value, bool, where)
        case "torch":
            return _typed(value, str, where)
        case "hosts":
            return {
                name: _host(name, spec, where) for name, spec in _typed(value, dict, where).items()
            }
        case "severity":
            table = _typed(value, dict, where)
            return {
                rule: _choice(Severity, word, f"{where}.{rule}") for rule, word in table.items()
            }
        case "per-file":
            table = _typed(value, dict, where)
            return {glob: _words(rules, f"{where}.{glob}") for glob, rules in table.items()}
    return _words(value, where)


def _host(name: str, spec: Any, where: str) -> Host:
    known = {f.name.replace("_", "-"): f for f in fields(Host) if f.name != "name"}
    values: dict[str, Any] = {}
    for key, value in _typed(spec, dict, f"{where}.{name}").items():
        if key not in known:
            raise ConfigError(f"{where}.{name}: a host has no key `{key}`{_near(key, list(known))}")
        kind = int if "int" in str(known[key].type) else str
        values[known[key].name] = _typed(value, kind, f"{where}.{name}.{key}")
    return Host(name, **values)


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{where}: expected {kind.__name__}, got `{value!r}`; correct the value")
    return value


def _words(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ConfigError(
            f"{where}: expected a list of strings, got `{value!r}`; correct the value"
        )
    return tuple(value)


def _choice(kind: type[Profile] | type[Severity], value: Any, where: str) -> Any:
    words = [member.name.lower() for member in kind]
    if not isinstance(value, str) or value not in words:
        raise ConfigError(f"{where}: `{value}` is none of {', '.join(words)}")
    return kind[value.upper()]


def _near(word: str, known: list[str]) -> str:
    found = difflib.get_close_matches(word, known, 1)
    return (
        f"; did you mean `{found[0]}`?" if found else f"; the keys are {', '.join(sorted(known))}"
    )
