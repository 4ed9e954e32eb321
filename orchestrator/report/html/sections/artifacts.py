"""What came home, with size and hash."""

from __future__ import annotations

from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView

MAX_FILES = 400


def section(view: RunView) -> Section | None:
    if not view.members:
        return None
    files = [m for m in view.members if "/files/" in m.path or "/out/" in m.path]
    body = render(
        "artifacts.html.j2",
        files=sorted(files, key=lambda m: m.path)[:MAX_FILES],
        hidden=max(len(files) - MAX_FILES, 0),
        others=len(view.members) - len(files),
        total=sum(member.size for member in view.members),
        record=view.record,
    )
    action = f"compare them with another run: orch diff OTHER {view.record.run_id}"
    return Section("artifacts", "Artifacts", body, action if files else "")
