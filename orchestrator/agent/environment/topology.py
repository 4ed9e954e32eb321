"""How the GPUs of a host are linked: the matrix of `nvidia-smi topo -m`, and one word for it.

The tool separates columns with tabs, writes the last column after two of them, underlines its
header with escape codes even into a pipe, and gives network devices shorter rows. Copies from a
terminal have blanks instead of tabs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    known,
    missing,
    not_applicable,
    unknown,
)
from orchestrator.agent.environment.probe import Answer

SOURCE = "nvidia-smi topo -m"
KEYS = (
    "topology.class",
    "topology.links",
    "topology.cpu_affinity",
    "topology.numa_affinity",
    "topology.nics",
)

Links = Dict[str, Dict[str, str]]

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
# From the closest to the farthest; NV# counts bonded NVLinks.
_LINK = re.compile(r"X|NV\d+|C2C|PIX|PSB|PXB|PHB|NODE|SOC|SYS")
_HEADINGS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(frozen=True)
class Matrix:
    """`links[a][b]` is the link from a to b, in the tool's word; `X` is the device itself."""

    links: Links
    cpu_affinity: Dict[str, str] = field(default_factory=dict)
    numa_affinity: Dict[str, str] = field(default_factory=dict)
    nics: Dict[str, str] = field(default_factory=dict)


def parse(text: str) -> Matrix:
    """Read what `nvidia-smi topo -m` printed. Raises ValueError where it is not such a matrix."""
    lines = [_ESCAPE.sub("", line).rstrip("\r\n") for line in text.splitlines()]
    start, header = _header(lines)
    devices = _devices(header)
    rows = dict(_rows(lines[start + 1 :], devices))
    if set(rows) != set(devices):
        absent = ", ".join(sorted(set(devices) - set(rows)))
        raise ValueError(f"the matrix has no row for {absent}")
    links = {
        name: {device: cells[place] for place, device in enumerate(devices)}
        for name, (cells, _) in rows.items()
    }
    affinities = {name: rest for name, (_, rest) in rows.items() if name.startswith("GPU")}
    return Matrix(
        links,
        _column(affinities, 0),
        _column(affinities, 1),
        dict(re.findall(r"^[ \t]*(NIC\d+): (\S+)[ \t]*$", "\n".join(lines), re.MULTILINE)),
    )


def _header(lines: Sequence[str]) -> Tuple[int, str]:
    for place, line in enumerate(lines):
        if re.match(r"\s*GPU\d+\s", line) and _HEADINGS[0] in line:
            return place, line
    first = next((line.strip() for line in lines if line.strip()), "nothing")
    raise ValueError(f"no header with GPU0 and {_HEADINGS[0]}; it starts with `{first[:120]}`")


def _devices(header: str) -> List[str]:
    return header[: header.index(_HEADINGS[0])].split()


_Row = Tuple[str, Tuple[List[str], List[str]]]


def _rows(lines: Sequence[str], devices: Sequence[str]) -> List[_Row]:
    """(device, (links in the order of `devices`, the cells after them)) of each row."""
    rows: List[_Row] = []
    for line in lines:
        name = line.split("\t", 1)[0].split()[:1]
        if not name or name[0] not in devices:
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        links = [cell.strip() for cell in cells[1 : len(devices) + 1]]
        strange = [link for link in links if not _LINK.fullmatch(link)]
        if strange or len(links) != len(devices):
            raise ValueError(f"row {name[0]}: `{(strange or ['a missing cell'])[0]}` is no link")
        rows.append((name[0], (links, [cell.strip() for cell in cells[len(devices) + 1 :]])))
    return rows


def _column(affinities: Mapping[str, Sequence[str]], place: int) -> Dict[str, str]:
    """One column after the links, without the devices for which it is empty or `N/A`."""
    cells = {name: rest[place] for name, rest in affinities.items() if len(rest) > place}
    return {name: cell for name, cell in cells.items() if missing(cell, SOURCE) is None}


def link_class(links: Links) -> str:
    """`single`, `uniform NV18`, or `mixed NODE PHB SYS`: only links between GPUs count."""
    gpus = [name for name in links if name.startswith("GPU")]
    between = {links[a][b] for a in gpus for b in gpus if a != b}
    if not between:
        return "single"
    if len(between) == 1:
        return f"uniform {between.pop()}"
    return f"mixed {' '.join(sorted(between))}"


def readings(answer: Optional[Answer]) -> Readings:
    if answer is None:
        return dict.fromkeys(KEYS, unknown(SOURCE, "nvidia-smi is not installed"))
    if answer.problem:
        return dict.fromkeys(KEYS, error(SOURCE, f"nvidia-smi topo {answer.problem}"))
    try:
        matrix = parse(answer.text)
    except ValueError as failure:
        return dict.fromkeys(KEYS, error(SOURCE, str(failure)))
    return matrix_readings(matrix, SOURCE)


def matrix_readings(matrix: Matrix, source: str) -> Readings:
    return {
        "topology.class": known(link_class(matrix.links), source),
        "topology.links": known(matrix.links, source),
        "topology.cpu_affinity": _told(matrix.cpu_affinity, source),
        "topology.numa_affinity": _told(matrix.numa_affinity, source),
        "topology.nics": (
            known(matrix.nics, source)
            if matrix.nics
            else not_applicable(source, "no network device in the matrix")
        ),
    }


def _told(column: Dict[str, str], source: str) -> Reading:
    return known(column, source) if column else unknown(source, "the tool tells none")
