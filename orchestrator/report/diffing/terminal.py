"""A comparison in the terminal: conditions, code, what ended otherwise, metrics, artifacts."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from orchestrator.diff.comparison import Comparison, Named
from orchestrator.report.diffing.cells import one_line
from orchestrator.report.diffing.circumstances import code_parts, condition_parts, ended_parts
from orchestrator.report.diffing.metrics import metric_parts
from orchestrator.report.diffing.records import artifact_parts

# A pipe has no width; wrapping there would break the lines people grep for.
_PLAIN_WIDTH = 240


def show(
    comparison: Comparison,
    *,
    stat: bool = False,
    plain: bool = False,
    console: Console | None = None,
) -> None:
    """Write the comparison to the terminal, or as plain text where there is none."""
    out = console or _console(plain or not sys.stdout.isatty())
    for part in _parts(comparison, stat):
        out.print(part, soft_wrap=isinstance(part, Text) and not out.is_terminal)


def _console(plain: bool) -> Console:
    return Console(width=_PLAIN_WIDTH, force_terminal=False, no_color=True) if plain else Console()


def _parts(comparison: Comparison, stat: bool) -> Iterator[RenderableType]:
    yield _side("A", comparison.a)
    yield _side("B", comparison.b)
    if comparison.unlike_experiments:
        yield Text(one_line(comparison.unlike_experiments), style="bold yellow")
    if comparison.conditions is not None:
        yield from condition_parts(comparison.conditions)
    if comparison.code is not None:
        yield from code_parts(comparison.code, comparison)
    yield from ended_parts(comparison.ended, stat)
    yield from metric_parts(comparison.metrics, stat)
    yield from artifact_parts(comparison, stat)
    for problem in comparison.problems:
        yield Text(f"note: {one_line(problem)}", style="yellow")
    yield _banner(comparison)


def _side(letter: str, side: Named) -> Text:
    details = [side.kind]
    if side.run_id and side.run_id != side.name:
        details.append(side.run_id)
    details += [f"on {side.host}"] if side.host else []
    return Text.assemble(
        (f"{letter}  ", "bold"), one_line(side.name), (f"  {one_line(', '.join(details))}", "dim")
    )


def _banner(comparison: Comparison) -> Text:
    code = comparison.exit_code
    words = {
        0: "nothing differs that was judged",
        1: "the two sides differ",
        3: "not everything could be compared",
    }
    style = {0: "bold green", 1: "bold red"}.get(code, "bold yellow")
    return Text(f"\n{words[code]}{_next_action(comparison)}", style=style)


def _next_action(comparison: Comparison) -> str:
    statuses, outcomes = comparison.artifact_counts, comparison.metric_counts
    if outcomes.get("not_comparable"):
        return "; metrics of unlike hosts or timings are shown, not judged"
    if outcomes.get("too_few"):
        return "; for a class and a centre, give the step `rounds: 8`"
    if statuses.get("different"):
        return "; what may differ is declared under `compare:` in the experiment"
    return ""
