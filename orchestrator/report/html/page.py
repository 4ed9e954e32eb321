"""The page: sections in the order in which people ask, in one file."""

from __future__ import annotations

import json
from importlib import resources

from markupsafe import Markup

from orchestrator.report.html.section import Builder, Section, render
from orchestrator.report.html.sections import (
    artifacts,
    banner,
    conditions,
    ledger,
    raw,
    rounds,
    stages,
    steps,
    sweeps,
    timeline,
)
from orchestrator.report.view import RunView, to_json

# Accounts and A/B comparisons will stand between `conditions` and `sweeps`.
SECTIONS: tuple[Builder, ...] = (
    banner.section,
    ledger.section,
    conditions.section,
    sweeps.section,
    stages.section,
    rounds.section,
    timeline.section,
    steps.section,
    artifacts.section,
    raw.section,
)


def page(view: RunView) -> str:
    """The whole report of a run, as HTML that opens from disk without a network."""
    return assemble(
        title=f"{view.record.experiment}: {view.record.run_id}",
        sections=[found for build in SECTIONS if (found := build(view)) is not None],
        data=to_json(view),
    )


def assemble(*, title: str, sections: list[Section], data: str) -> str:
    """Sections in their frame, with style, script and data inside."""
    static = resources.files("orchestrator.report.html") / "static"
    return render(
        "page.html.j2",
        title=title,
        sections=sections,
        style=Markup((static / "style.css").read_text("utf-8")),  # noqa: S704 - our own files
        script=Markup((static / "script.js").read_text("utf-8")),  # noqa: S704 - our own files
        data=_inside_a_script(data),
    )


def _inside_a_script(data: str) -> Markup:
    """JSON that cannot end the <script> it stands in, whatever strings it holds."""
    json.loads(data)
    safe = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704 - escaped above
