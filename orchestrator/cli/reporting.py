"""Commands that write reports."""

from __future__ import annotations

from pathlib import Path

from orchestrator import resume
from orchestrator.cli.places import artifacts
from orchestrator.store import rundir


def report(name: str, output: Path | None, markdown: bool) -> None:
    folder = rundir.find(artifacts(), name)
    view = resume.view(folder)
    if markdown:
        from orchestrator.report.markdown import page as render
    else:
        from orchestrator.report.html.page import page as render
    suffix = "md" if markdown else "html"
    target = output or folder.path / f"report.{suffix}"
    target.write_text(render(view), "utf-8", newline="\n")
    print(target)
