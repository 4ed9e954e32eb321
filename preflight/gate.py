"""What `orch run` asks: is there an error in this experiment or in the code that it runs?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from preflight.config import find_root, load_config
from preflight.discover import discover, relative_path
from preflight.engine import Options, Report, run
from preflight.project import Project
from preflight.syntax.yaml import scalar

# Errors of the repository that do not touch this run: its files go to the host with the line
# endings that git stores, whatever a later clone on another laptop would get.
_OF_OTHER_CLONES = frozenset({"eol-attribute-missing"})


@dataclass(frozen=True)
class Gate:
    """The report over one experiment's files, and the counts a run records."""

    report: Report
    errors: int
    warnings: int
    suppressed: int

    @property
    def text(self) -> str:
        """One line a finding and a closing sentence."""
        from preflight.reporters.concise import render

        return render(self.report)


def check_experiment(experiment: Path) -> Gate:
    """Lint an experiment file, its ledger, and the code its steps run; nothing else of the project.

    Raises:
        ConfigError: `[tool.preflight]` cannot be used.
        PathMissing: there is no such file.
    """
    root = find_root(experiment)
    config = load_config(root)
    wanted = files_of(experiment, Project(discover([root, experiment], config), config))
    there = [root / name for name in sorted(wanted) if (root / name).is_file()]
    report = run(there, config, Options())
    blocking = [f for f in report.blocking(strict=False) if f.rule not in _OF_OTHER_CLONES]
    return Gate(
        report=report,
        errors=len(blocking),
        warnings=len(report.blocking(strict=True)) - len(blocking),
        suppressed=len(report.suppressed),
    )


def files_of(path: Path, project: Project) -> set[str]:
    """The experiment, its ledger, and every local file its commands come to."""
    name = relative_path(path, project.root)
    found = {name}
    for experiment in project.experiments:
        if experiment.file.path == name:
            found |= project.code_of(experiment)
            ledger = scalar(experiment.file.get("ledger"))
            if ledger:
                found.add(relative_path(path.parent / ledger, project.root))
    return found
