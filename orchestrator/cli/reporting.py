"""Commands that write reports."""

from __future__ import annotations

import json as json_text
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator import reading, rounds
from orchestrator.cli.places import artifacts
from orchestrator.errors import InputError
from orchestrator.report.view import RunView
from orchestrator.store import rundir
from orchestrator.verdict.item import NEW
from orchestrator.verdict.trend import Trend, trends

_WHERE = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)=(.+)")


def report(name: str, output: Path | None, markdown: bool) -> None:
    folder = rundir.find(artifacts(), name)
    view = reading.view(folder)
    if markdown:
        from orchestrator.report.markdown import page

        text = page(view)
    else:
        from orchestrator.report.html.page import page

        text = page(replace(view, trends=_trends(view)))
    suffix = "md" if markdown else "html"
    target = output or folder.path / f"report.{suffix}"
    target.write_text(text, "utf-8", newline="\n")
    print(target)


def _trends(view: RunView) -> Sequence[Trend]:
    """What was predicted in this run, over the rounds of its experiment up to it."""
    predicted = {i.metric for i in view.items if i.status != NEW}
    home = rounds.runs_at_home(view.folder.path.parent, view.record.experiment)
    _tell_left_out(home.damaged)
    earlier = [run for run in home.runs if run.record.created_at <= view.record.created_at]
    return [trend for metric in sorted(predicted) for trend in trends(earlier, metric, {})]


def trend(metric: str, where: Sequence[str], experiment: str, json: bool) -> None:
    from orchestrator.report import trend as shown

    found, damaged = rounds.over_time(artifacts(), metric, _point(where), experiment)
    _tell_left_out(damaged)
    if json:
        for line in shown.as_json(found):
            print(json_text.dumps(line, ensure_ascii=False))
    else:
        shown.show(found)


def _tell_left_out(damaged: Sequence[str]) -> None:
    for reason in damaged:
        print(f"left out: {reason}", file=sys.stderr)


def _point(where: Sequence[str]) -> Mapping[str, str]:
    point = {}
    for text in where:
        for part in text.split(","):
            match = _WHERE.fullmatch(part.strip())
            if match is None:
                raise InputError(f"`{part}` is no condition", expected="axis=value, as in `m=77`")
            point[match[1]] = match[2]
    return point
