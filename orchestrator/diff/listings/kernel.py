"""One compiled kernel as a listing tells of it, and two lists of kernels side by side."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from orchestrator.diff.blob import Blob
from orchestrator.diff.lines.align import align
from orchestrator.diff.listings.demangle import demangled
from orchestrator.diff.pair import Pair, shorten
from orchestrator.diff.record import ORDER, Location, Record, worst

# What a kernel takes of the machine, in the order in which people ask for it.
RESOURCES = (
    "registers",
    "shared_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "stack_bytes",
    "local_bytes",
)
_MOST_LINES_SHOWN = 3
_MOST_OPCODES_SHOWN = 6


@dataclass(frozen=True)
class Kernel:
    """One kernel: its resources as far as they are told, and its instructions, normalised.

    `lines` have registers, labels and constant offsets numbered by first appearance: two compilers
    that differ in their numbering alone give the same lines.
    """

    name: str
    arch: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    opcodes: Mapping[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @cached_property
    def hash(self) -> str:
        """sha256 of the normalised lines."""
        return hashlib.sha256("\n".join(self.lines).encode("utf-8", "replace")).hexdigest()

    @property
    def instructions(self) -> int:
        return sum(self.opcodes.values())


@dataclass(frozen=True)
class Listing:
    """All kernels of a file; `compiler` holds lines that only tell which tool wrote it."""

    kernels: tuple[Kernel, ...]
    compiler: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    """What stands outside the kernels, normalised: globals and constants."""


def compare_texts(pair: Pair, parse: Callable[[str], Listing]) -> Record:
    """Compare two listings as `parse` reads them.

    Raises:
        Unreadable: a side is no listing.
    """
    a, b = pair.read(lambda blob: parse(_text(blob, pair.limits.text_bytes)))
    return compare(pair, a, b)


def check_text(pair: Pair, parse: Callable[[str], Listing]) -> None:
    """See whether side A, which equals side B, is a listing at all."""
    parse(_text(pair.a, pair.limits.text_bytes))


def _text(blob: Blob, most_bytes: int) -> str:
    return blob.read(most_bytes).decode("utf-8", "backslashreplace")


def compare(pair: Pair, a: Listing, b: Listing) -> Record:
    """Kernel by kernel; which compiler wrote a listing is told and is no difference."""
    by_arch = _has_several_archs(a) or _has_several_archs(b)
    named_a, named_b = _named(a, by_arch), _named(b, by_arch)
    children = [_compare(name, named_a[name], named_b[name]) for name in named_a if name in named_b]
    renamed = _match_rest(named_a, named_b, children)
    places = [Location("renamed", old, new) for old, new in renamed]
    if a.module != b.module:
        places += _changed_lines(a.module, b.module)
    counts = Counter(f"kernels_{child.status}" for child in children)
    unlike = sorted(
        (c for c in children if c.status != "equal"), key=lambda child: ORDER.index(child.status)
    )
    whole = worst([child.status for child in children])
    if whole in ("only_a", "only_b") or places:
        whole = "different"
    left_out = len(unlike) - pair.limits.children
    notes = [_compiler_note(a, b)] if a.compiler != b.compiler else []
    notes += [f"{left_out} more kernels are not equal"] if left_out > 0 else []
    if whole == "equal" and not notes:
        notes = ["the bytes differ, the instructions do not"]
    return pair.record(
        whole,
        metrics={**counts, **({"kernels_renamed": len(renamed)} if renamed else {})},
        locations=places,
        note="; ".join(notes),
        children=unlike[: pair.limits.children],
    )


def _has_several_archs(listing: Listing) -> bool:
    return len({kernel.name for kernel in listing.kernels}) < len(listing.kernels)


def _named(listing: Listing, by_arch: bool) -> dict[str, Kernel]:
    """Kernels by their name, and by their architecture where a name stands for several."""
    named: dict[str, Kernel] = {}
    for kernel in listing.kernels:
        name = f"{kernel.name} for {kernel.arch}" if by_arch and kernel.arch else kernel.name
        serial = 2
        unique = name
        while unique in named:
            unique, serial = f"{name} ({serial})", serial + 1
        named[unique] = kernel
    return named


def _compare(name: str, a: Kernel, b: Kernel) -> Record:
    places = []
    if a.arch != b.arch:
        places.append(Location("arch", a.arch, b.arch))
    places += [
        Location(what, _told(a.resources, what), _told(b.resources, what))
        for what in RESOURCES
        if a.resources.get(what) != b.resources.get(what)
    ]
    if a.hash != b.hash:
        places += _changed_opcodes(a.opcodes, b.opcodes)
        places += _changed_lines(a.lines, b.lines)
    return Record(
        demangled(name),
        "kernel",
        "different" if places else "equal",
        metrics=_metrics(a, b),
        locations=tuple(places),
    )


def _metrics(a: Kernel, b: Kernel) -> dict[str, float]:
    found: dict[str, float] = {}
    for side, kernel in (("a", a), ("b", b)):
        found |= {f"{what}_{side}": value for what, value in kernel.resources.items()}
        if kernel.lines:
            found[f"instructions_{side}"] = kernel.instructions
    return found


def _changed_opcodes(a: Mapping[str, int], b: Mapping[str, int]) -> list[Location]:
    """The opcodes whose counts changed most."""
    changes = [(b.get(op, 0) - a.get(op, 0), op) for op in {*a, *b} if a.get(op, 0) != b.get(op, 0)]
    changes.sort(key=lambda change: (-abs(change[0]), change[1]))
    return [
        Location(f"opcode {op}", str(a.get(op, 0)), str(b.get(op, 0)), delta)
        for delta, op in changes[:_MOST_OPCODES_SHOWN]
    ]


def _changed_lines(a: Sequence[str], b: Sequence[str]) -> list[Location]:
    """The first lines that differ, behind the normalisation."""
    places = []
    for span in align(a, b):
        if span.same:
            continue
        one, two = a[span.a1 : span.a2], b[span.b1 : span.b2]
        where = f"instruction {span.a1 + 1} / {span.b1 + 1}"
        places.append(Location(where, shorten(_first(one)), shorten(_first(two))))
        if len(places) == _MOST_LINES_SHOWN:
            break
    return places


def _first(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more)"


def _match_rest(
    a: Mapping[str, Kernel], b: Mapping[str, Kernel], children: list[Record]
) -> list[tuple[str, str]]:
    """Kernels of one side only: renamed where the instructions are the same, else come and gone."""
    waiting: dict[str, list[str]] = {}
    for name in b:
        if name not in a:
            waiting.setdefault(b[name].hash, []).append(name)
    renamed = []
    for name in (name for name in a if name not in b):
        same = waiting.get(a[name].hash) if a[name].lines else None
        if same:
            new = same.pop(0)
            renamed.append((demangled(name), demangled(new)))
            children.append(_compare(f"{name} -> {new}", a[name], b[new]))
        else:
            children.append(Record(demangled(name), "kernel", "only_a"))
    for name in (name for names in waiting.values() for name in names):
        children.append(Record(demangled(name), "kernel", "only_b"))
    return renamed


def _told(resources: Mapping[str, int], what: str) -> str:
    return str(resources[what]) if what in resources else "not told"


def _compiler_note(a: Listing, b: Listing) -> str:
    one, two = (
        ", ".join(_unlike(side.compiler, other.compiler)) for side, other in ((a, b), (b, a))
    )
    return f"another compiler, which does not count: {shorten(one)} -> {shorten(two)}"


def _unlike(lines: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [line for line in lines if line not in known] or ["-"]
