"""What stands in a cell of a comparison: untrusted text, counts, sizes, and their colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from orchestrator.report.words import harmless
from orchestrator.spec.quantity import show_size

STATUS_STYLES: Mapping[str, str] = {
    "unreadable": "bold red",
    "different": "bold red",
    "only_a": "red",
    "only_b": "red",
    "skipped": "bold yellow",
    "within": "green",
    "equal_after_masks": "green",
    "equal": "green",
    "no_value": "bold yellow",
    "not_comparable": "bold yellow",
    "ambiguous": "bold yellow",
    "too_few": "yellow",
    "measured": "cyan",
}


def new_table() -> Table:
    """A table without lines: columns that line up, and nothing else."""
    return Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=False
    )


def tally(words: Iterable[str], order: Sequence[str]) -> str:
    """How many of each word there are, in the given order: `2 different, 1 equal`."""
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return ", ".join(f"{found[w]} {w.replace('_', ' ')}" for w in order if w in found)


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `2 entries`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("ry") else f"{count} {noun}s"


def size_words(size: int | None) -> str:
    """A number of bytes; a dash where there is no file."""
    return "-" if size is None else show_size(size)


def number_words(value: Any) -> str:
    """Whole numbers whole, others with four significant digits."""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def one_line(text: str) -> str:
    """Untrusted text as one line that any terminal can take."""
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return harmless(whole).replace("\n", "\\n").replace("\t", " ")


def short(text: str) -> str:
    """A text that leaves room for its neighbours."""
    return text if len(text) <= 60 else f"{text[:57]}..."
