"""The record as it is, for whoever wants to check the rest."""

from __future__ import annotations

from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView


def section(view: RunView) -> Section:
    record = view.record.model_dump_json(by_alias=True, indent=2)
    body = render("raw.html.j2", record=record, folder=str(view.folder.path.name))
    return Section("raw", "Record", body)
