"""The artifacts of two sides, worst first: status, the numbers that tell, the first places."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from orchestrator.diff.comparison import Comparison
from orchestrator.diff.record import ORDER, SETTLED, Location, Record
from orchestrator.report.diffing.cells import (
    STATUS_STYLES,
    number_words,
    one_line,
    size_words,
    tally,
)

_MOST_LINES = 40
_MOST_SETTLED = 10
_MOST_PLACES = 4
_MOST_CHILDREN = 8
# The numbers that say most about a pair, by which people look first.
_TELLING = (
    "outside",
    "max_abs",
    "max_rel",
    "rel_l2",
    "cosine",
    "ulp_max",
    "nan_a",
    "nan_b",
    "special_mismatches",
    "added_lines",
    "removed_lines",
    "changed_numbers",
    "added",
    "removed",
    "changed",
    "recounted",
    "added_rows",
    "removed_rows",
    "changed_cells",
    "changed_share",
    "perceptual_max",
    "deleted",
    "increased",
    "decreased",
    "registers_a",
    "registers_b",
    "kernels_different",
    "tensors_different",
    "tensors_within",
)


def artifact_parts(comparison: Comparison, stat: bool) -> Iterator[RenderableType]:
    """Counts, what is unsettled, then what is only within its tolerance."""
    records = comparison.artifacts
    yield Text()
    if not records:
        yield Text("artifacts: none on either side", style="yellow")
        return
    counts = tally((record.status for record in records), ORDER)
    ignored = f"; {comparison.ignored} ignored by rule" if comparison.ignored else ""
    yield Text(f"artifacts: {counts}{ignored}", style="bold")
    unsettled = [record for record in records if record.status not in SETTLED]
    settled = [record for record in records if record.status in ("within", "equal_after_masks")]
    for group, most in ((unsettled, _MOST_LINES), (settled, _MOST_SETTLED)):
        for record in group[:most]:
            yield from _record(record, stat)
        if len(group) > most:
            yield Text(f"  and {len(group) - most} more (--json, --only GLOB)", style="dim")


def _record(record: Record, stat: bool, depth: int = 1) -> Iterator[Text]:
    status = record.status.replace("_", " ")
    yield Text.assemble(
        "  " * depth,
        (status, STATUS_STYLES[record.status]),
        "  ",
        (one_line(record.path), "bold" if record.status not in SETTLED else ""),
        (f"  {_facts(record)}", "dim"),
    )
    if record.note and record.status != "equal_after_masks":
        yield Text(f"{'  ' * depth}    {one_line(record.note)}", style="dim")
    if stat:
        return
    settled = record.status in SETTLED
    for place in () if settled else record.locations[:_MOST_PLACES]:
        yield _place(place, depth)
    hidden = len(record.locations) + record.more - _MOST_PLACES
    if hidden > 0 and not settled:
        yield Text(f"{'  ' * depth}    and {hidden} more", style="dim")
    for child in record.children[:_MOST_CHILDREN]:
        if child.status not in SETTLED:
            yield from _record(child, stat, depth + 2)
    if len(record.children) > _MOST_CHILDREN:
        more = len(record.children) - _MOST_CHILDREN
        yield Text(f"{'  ' * depth}    and {more} more parts (--json)", style="dim")


def _facts(record: Record) -> str:
    parts = [record.type]
    if record.size_a != record.size_b:
        parts += [f"{size_words(record.size_a)} -> {size_words(record.size_b)}"]
    told = [name for name in _TELLING if record.metrics.get(name)]
    parts += [f"{name} {number_words(record.metrics[name])}" for name in told[:6]]
    parts += [f"{name}: {count} hidden" for name, count in record.masks.items()]
    if record.tolerance and record.status in ("within", "different"):
        parts.append(f"tolerance {record.tolerance}")
    return one_line(", ".join(parts))


def _place(place: Location, depth: int) -> Text:
    values = f"{place.a or '-'} -> {place.b or '-'}" if place.a or place.b else ""
    return Text.assemble(
        f"{'  ' * depth}    ", (one_line(place.where), "cyan"), f"  {one_line(values)}"
    )
