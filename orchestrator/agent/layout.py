"""Where things lie on the host, under one root directory (`~/.orch` by default).

blobs/ab/cdef...      file contents by git hash, shared by all runs
caches/               build and JIT caches that outlive a run, where an experiment asks for it
leases/               one lock file for each GPU
runs/<run-id>/        one run: plan, tree, journal, steps, bundle
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class Root:
    """The directory that `orch` owns on a host."""

    path: str

    @classmethod
    def at(cls, path: str) -> Root:
        """The root, made if need be; only its owner may look inside."""
        full = os.path.abspath(os.path.expanduser(path))
        os.makedirs(full, mode=0o700, exist_ok=True)
        root = cls(full)
        for folder in (root.blobs, root.runs, root.leases, root.caches):
            os.makedirs(folder, exist_ok=True)
        return root

    @property
    def blobs(self) -> str:
        return os.path.join(self.path, "blobs")

    @property
    def runs(self) -> str:
        return os.path.join(self.path, "runs")

    @property
    def leases(self) -> str:
        return os.path.join(self.path, "leases")

    @property
    def caches(self) -> str:
        return os.path.join(self.path, "caches")

    @property
    def spares(self) -> str:
        return os.path.join(self.path, "spares")

    def run(self, run_id: str) -> RunFolder:
        """The folder of a run.

        Raises:
            ValueError: the id is not one that the controller makes.
        """
        if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
            raise ValueError(f"not a run id: {run_id!r}")
        return RunFolder(os.path.join(self.runs, run_id))


@dataclass(frozen=True)
class RunFolder:
    """One run on the host."""

    path: str

    def inside(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    @property
    def run_id(self) -> str:
        return os.path.basename(self.path)

    @property
    def plan(self) -> str:
        return self.inside("plan.json")

    @property
    def manifest(self) -> str:
        """The source tree as `git ls-tree -r -z` lists it."""
        return self.inside("manifest")

    @property
    def tree(self) -> str:
        return self.inside("tree")

    @property
    def journal(self) -> str:
        return self.inside("journal.jsonl")

    @property
    def lock(self) -> str:
        """Held by the supervisor for as long as it lives."""
        return self.inside("supervisor.lock")

    @property
    def supervisor(self) -> str:
        """Process id and start of the supervisor, as JSON."""
        return self.inside("supervisor.json")

    @property
    def supervisor_log(self) -> str:
        return self.inside("supervisor.log")

    @property
    def cancel(self) -> str:
        """Its existence is the order to stop; its text says who ordered it."""
        return self.inside("cancel")

    @property
    def caches(self) -> str:
        return self.inside("caches")

    @property
    def payload(self) -> str:
        """Modules put on the steps' PYTHONPATH."""
        return self.inside("payload")

    @property
    def raw(self) -> str:
        """Raw outputs of the environment probes."""
        return self.inside("environment")

    @property
    def bundle(self) -> str:
        return self.inside("bundle.zip")

    @property
    def bundle_facts(self) -> str:
        """Size and sha256 of the finished bundle; its existence says that the bundle is whole."""
        return self.inside("bundle.json")

    @property
    def bundle_manifest(self) -> str:
        """The manifest of the last bundle once more: what in it was looked through for secrets."""
        return self.inside("bundle.manifest.json")

    @property
    def sent_home(self) -> str:
        """Its existence says that a controller has confirmed the whole bundle."""
        return self.inside("sent_home")

    @property
    def reserve(self) -> str:
        """Room that is kept back for the journal and the bundle."""
        return self.inside("reserve")

    def step(self, folder: str, *parts: str) -> str:
        return self.inside("steps", folder, *parts)


def write_atomically(path: str, text: str) -> None:
    """Write a file so that a reader sees all of it or none."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
