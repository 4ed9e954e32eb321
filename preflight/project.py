"""The files of a run seen together: for rules that need two files to prove a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from preflight.checking import Unparsed, is_ours, parse_cuda, parse_python, parse_yaml
from preflight.config import Config
from preflight.discover import Target
from preflight.source import Source

if TYPE_CHECKING:
    from preflight.syntax.cuda import CudaFile
    from preflight.syntax.python import PythonFile
    from preflight.syntax.yaml import YamlFile

_EXPERIMENT = re.compile(rb"^experiment[ \t]*:", re.MULTILINE)
_MODULE = re.compile(r"python[\d.]*\s+(?:-[uBOIEsS]+\s+)*-m\s+([\w.]+)")
_SCRIPT = re.compile(r"[\w./-]+\.(?:py|sh|cu)\b")


@dataclass(frozen=True)
class Experiment:
    """An experiment file with what the cross-file rules read from it."""

    file: YamlFile
    host_name: str | None
    commands: tuple[str, ...]


class Project:
    """Lazy access to the parsed files of a run. Files that do not parse are left out."""

    def __init__(self, targets: list[Target], config: Config) -> None:
        self.config = config
        self.targets = {target.path: target for target in targets}
        self._bytes: dict[str, bytes] = {}
        self._parsed: dict[str, Source | None] = {}

    @property
    def root(self) -> Path:
        return self.config.root

    def read(self, path: str) -> bytes:
        """The bytes of a file; b"" when it cannot be read (the file pass reports that)."""
        if path not in self._bytes:
            try:
                self._bytes[path] = self.targets[path].absolute.read_bytes()
            except OSError:
                self._bytes[path] = b""
        return self._bytes[path]

    def paths(self, *languages: str) -> Iterator[str]:
        return (t.path for t in self.targets.values() if t.language in languages)

    def source(self, path: str) -> Source:
        return Source(path, self.read(path), self.config.roles(path))

    def python(self, path: str) -> PythonFile | None:
        return self._parse(path, "python")  # type: ignore[return-value]

    def cuda(self, path: str) -> CudaFile | None:
        return self._parse(path, "cuda")  # type: ignore[return-value]

    def yaml(self, path: str) -> YamlFile | None:
        return self._parse(path, "yaml")  # type: ignore[return-value]

    def _parse(self, path: str, language: str) -> Source | None:
        if path not in self._parsed:
            roles = self.config.roles(path)
            try:
                if language == "python":
                    self._parsed[path] = parse_python(path, self.read(path), roles)
                elif language == "cuda":
                    self._parsed[path] = parse_cuda(path, self.read(path), roles, self.config)
                else:
                    self._parsed[path] = parse_yaml(path, self.read(path), roles)
            except Unparsed:
                self._parsed[path] = None
        return self._parsed[path]

    @cached_property
    def experiments(self) -> list[Experiment]:
        from preflight.syntax.yaml import item, items, plain_value, scalar

        found = []
        for path in self.paths("yaml"):
            data = self.read(path)
            if not (is_ours(data) and _EXPERIMENT.search(data)):
                continue
            file = self.yaml(path)
            if file is None:
                continue
            commands = []
            for step in items(file.get("steps")):
                run = plain_value(item(step, "run"))
                commands.append(
                    " ".join(map(str, run)) if isinstance(run, list) else str(run or "")
                )
            found.append(Experiment(file, scalar(file.get("host")), tuple(commands)))
        return found

    def code_of(self, experiment: Experiment) -> set[str]:
        """Files an experiment runs: entry modules and scripts, local imports, CUDA beside them."""
        queue = [path for command in experiment.commands for path in self.entries_of(command)]
        seen: set[str] = set()
        while queue:
            path = queue.pop()
            if path in seen:
                continue
            seen.add(path)
            queue += self._imports(path)
        folders = {str(PurePosixPath(path).parent) for path in seen}
        text = b"\n".join(self.read(path) for path in seen)
        for path in self.paths("cuda"):
            pure = PurePosixPath(path)
            beside = any(folder != "." and path.startswith(f"{folder}/") for folder in folders)
            if beside or str(pure.parent) in folders or pure.name.encode() in text:
                seen.add(path)
        return seen

    def entries_of(self, command: str) -> list[str]:
        found = []
        for module in _MODULE.findall(command):
            stem = module.replace(".", "/")
            found += [p for p in (f"{stem}.py", f"{stem}/__main__.py") if p in self.targets]
        found += [word for word in _SCRIPT.findall(command) if word in self.targets]
        return found

    def _imports(self, path: str) -> list[str]:
        file = self.python(path) if path.endswith(".py") else None
        if file is None:
            return []
        return [p for name in set(file.aliases.values()) for p in self.module_paths(name, path)]

    def module_paths(self, dotted: str, importer: str) -> list[str]:
        """Files a dotted import may mean: its last part is a module or an attribute."""
        if dotted.startswith("."):
            level = len(dotted) - len(dotted.lstrip("."))
            parents = PurePosixPath(importer).parents
            package = str(parents[min(level - 1, len(parents) - 1)])
            dotted = ".".join([*([] if package == "." else package.split("/")), dotted.lstrip(".")])
        parts = dotted.strip(".").split(".")
        found = []
        for size in range(len(parts), 0, -1):
            stem = "/".join(parts[:size])
            found += [p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in self.targets]
        return found[:2]
