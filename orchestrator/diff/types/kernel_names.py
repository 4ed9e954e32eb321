"""Lists of GPU kernels: how often each ran, told by name.

Read are: one name a line (with a count before or behind it), JSON lists and mappings, and the CSV
tables of nsys (`cuda_gpu_kern_sum`) and ncu, also behind the output of the program.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from orchestrator.diff.blob import Blob
from orchestrator.diff.listings.demangle import demangled
from orchestrator.diff.listings.kernel_classes import UNKNOWN, VERSION, class_of, folded
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Unreadable

_NAME_COLUMNS = ("Kernel Name", "Name", "kernel", "name")
_COUNT_COLUMNS = ("Instances", "Count", "Calls", "count", "calls")
# A mangled name of nested templates goes on for pages.
_NAME_CHARACTERS = 120
_COUNT_FIRST = re.compile(r"\s*(\d+)(?:\s*[x*\u00d7])?\s+(\S.*)")
_COUNT_LAST = re.compile(r"\s*(\S.*?)(?:\t|\s*[,;]|\s+[x*\u00d7]|:)\s*(\d+)\s*")


def compare(pair: Pair) -> Record:
    """Compare two multisets of names; those that differ in template arguments alone are folded."""
    a, b = pair.read(lambda blob: read(blob, pair.limits.document_bytes))
    places, folded_away = _changes(a, b)
    folded_a, folded_b = _folded(a), _folded(b)
    status: Status = "different"
    if a == b:
        status = "equal"
    elif folded_a == folded_b:
        status = "equal_after_masks"
    unknown = sorted({n for n in (*folded_a, *folded_b) if class_of(n) == UNKNOWN})
    return pair.record(
        status,
        metrics={
            "launches_a": a.total(),
            "launches_b": b.total(),
            "names_a": len(a),
            "names_b": len(b),
            "added": sum(name not in folded_a for name in folded_b),
            "removed": sum(name not in folded_b for name in folded_a),
            "recounted": sum(
                folded_a[name] != folded_b[name] for name in folded_a if name in folded_b
            ),
            "unknown_names": len(unknown),
        },
        locations=[*_class_changes(folded_a, folded_b), *places],
        masks={"template arguments": folded_away} if folded_away else {},
        note=_note(unknown),
    )


def check(pair: Pair) -> None:
    read(pair.a, pair.limits.document_bytes)


def read(blob: Blob, most_bytes: int) -> Counter[str]:
    """How often each kernel ran, by demangled name.

    Raises:
        Unreadable: no name is in it.
    """
    try:
        text = blob.read(most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error
    if text.lstrip()[:1] in ("[", "{"):
        found = _from_json(text)
    elif any(_is_header(line) for line in text.split("\n")):
        found = _from_csv(text)
    else:
        found = _from_lines(text)
    counts: Counter[str] = Counter()
    for name, count in found.items():
        counts[demangled(name)] += count
    if not counts:
        raise Unreadable("names no kernel")
    return counts


def _from_json(text: str) -> Counter[str]:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not JSON: {error}") from error
    if isinstance(held, Mapping) and "kernels" in held:
        held = held["kernels"]
    counts: Counter[str] = Counter()
    items = held.items() if isinstance(held, Mapping) else [_named(item) for item in held]
    for name, count in items:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise Unreadable(f"gives `{name}` the count {count!r}")
        counts[str(name)] += count
    return counts


def _named(item: Any) -> tuple[str, Any]:
    if isinstance(item, str):
        return item, 1
    if isinstance(item, Mapping) and isinstance(item.get("name"), str):
        return item["name"], item.get("count", 1)
    raise Unreadable(f"has an item that is no name: {str(item)[:80]}")


def _is_header(line: str) -> bool:
    return line.startswith('"ID",') or ("," in line and _name_column(line.strip().split(",")) >= 0)


def _name_column(cells: list[str]) -> int:
    bare = [cell.strip().strip('"') for cell in cells]
    known = [bare.index(name) for name in _NAME_COLUMNS if name in bare]
    return known[0] if known and len(bare) > 1 else -1


def _from_csv(text: str) -> Counter[str]:
    lines = text.split("\n")
    start = next(index for index, line in enumerate(lines) if _is_header(line))
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines[start:]), newline="")))
    except csv.Error as error:
        raise Unreadable(f"is not CSV: {error}") from error
    header = [cell.strip() for cell in rows[0]]
    at = _name_column(header)
    count_at = next((header.index(name) for name in _COUNT_COLUMNS if name in header), None)
    launch_at = header.index("ID") if "ID" in header else None
    counts: Counter[str] = Counter()
    launches: set[tuple[str, str]] = set()
    for row in rows[1:]:
        if len(row) <= at or not row[at]:
            continue
        if launch_at is not None:
            # ncu has a row a metric; a launch counts once.
            launches.add((row[launch_at], row[at]))
        else:
            counts[row[at]] += _count(row[count_at]) if count_at is not None else 1
    counts.update(name for _, name in launches)
    return counts


def _count(cell: str) -> int:
    digits = cell.replace(",", "").strip()
    if not digits.isdigit():
        raise Unreadable(f"has the count `{cell}`")
    return int(digits[:18])


def _from_lines(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in text.split("\n"):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        first, last = _COUNT_FIRST.fullmatch(bare), _COUNT_LAST.fullmatch(bare)
        if first is not None:
            counts[first[2]] += int(first[1][:18])
        elif last is not None:
            counts[last[1]] += int(last[2][:18])
        else:
            counts[bare] += 1
    return counts


def _folded(counts: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[folded(name)] += count
    return found


def _changes(a: Counter[str], b: Counter[str]) -> tuple[list[Location], int]:
    """Folded names whose counts differ, most launches first; and how many names folding hid."""
    folded_a, folded_b = _folded(a), _folded(b)
    changed = [name for name in {*folded_a, *folded_b} if folded_a[name] != folded_b[name]]
    changed.sort(key=lambda name: (-abs(folded_b[name] - folded_a[name]), name))
    places = [
        Location(
            f"{name} ({class_of(name)})",
            str(folded_a[name]),
            str(folded_b[name]),
            folded_b[name] - folded_a[name],
        )
        for name in changed
    ]
    hidden = {
        folded(name)
        for name in {*a, *b}
        if a[name] != b[name] and folded_a[folded(name)] == folded_b[folded(name)]
    }
    return places, len(hidden)


def _class_changes(a: Counter[str], b: Counter[str]) -> list[Location]:
    classes_a, classes_b = _by_class(a), _by_class(b)
    return [
        Location(f"class {kind}", str(classes_a[kind]), str(classes_b[kind]))
        for kind in sorted({*classes_a, *classes_b})
        if classes_a[kind] != classes_b[kind]
    ]


def _by_class(counts: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[class_of(name)] += count
    return found


def _note(unknown: list[str]) -> str:
    words = f"classes version {VERSION}"
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        words += f"; of no known class: {', '.join(_brief(name) for name in unknown[:5])}{more}"
    return words


def _brief(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}..."
