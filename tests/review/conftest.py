"""Two runs of one experiment that differ in a number, a tensor, an image and a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import reading
from orchestrator.report.view import RunView
from orchestrator.store.rundir import RunDir
from tests.conftest import Molds, Project

EXPERIMENT = """
experiment: pair
timeout: 60s
steps:
  - id: measure
    matrix: {n: [1, 2]}
    run: python3 measure.py
    collect: ["out/**"]
ledger: pair.ledger.yaml
"""

LEDGER = """
ledger: pair
entries:
  # A comment that a draft must keep.
  - id: time.one
    metric: time
    where: {n: 1}
    unit: us
    expect: {value: 10, rel: 5%}
    because: ten by hand, on the back of an envelope
    decides: the next step
    source: closed_form
  - id: time.two
    metric: time
    where: {n: 2}
    unit: us
    expect: {interval: [19, 21]}
    because: twice as much work as for one
    source: closed_form
  - id: never
    metric: nowhere
    unit: us
    expect: {value: 1, rel: 5%}
    because: nothing records this metric
    severity: info
    source: guess
"""

MEASURE = """
import os, pathlib, struct, json, zlib
from orch_results import record
n, shift = int(os.environ["ORCH_POINT_N"]), {shift}
record("time", 10.0 * n + shift, "us")
record("rows", 64 * n, "1")
out = pathlib.Path("out")
out.mkdir(exist_ok=True)

def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

def row(y):
    return b"\\0" + bytes((x * 4 + y + 40 * shift) % 256 for x in range(48))

rows = b"".join(map(row, range(48)))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 48, 48, 8, 0, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
(out / f"plot{{n}}.png").write_bytes(png)
values = [float(i) + (0.5 if i == 7 and shift else 0.0) for i in range(100)]
head = json.dumps({{"x": {{"dtype": "F32", "shape": [10, 10], "data_offsets": [0, 400]}}}}).encode()
data = struct.pack("<Q", len(head)) + head + struct.pack("<100f", *values)
(out / f"result{{n}}.safetensors").write_bytes(data)
for line in range(3000):
    print(f"line {{line}} of the log, shift {{shift}}")
"""


def run_with(project: Project, shift: int) -> None:
    project.write("pair.ledger.yaml", LEDGER)
    project.write("measure.py", MEASURE.format(shift=shift))
    project.experiment(EXPERIMENT, "pair.yaml")
    done = project.orch("run", "pair.yaml", "--plain", "--no-preflight")
    assert done.code in (0, 1), done.text


@pytest.fixture
def before(project: Project, molds: Molds) -> RunDir:
    """The run as it was predicted."""
    molds.pour("review before", project, lambda made: run_with(made, 0))
    return RunDir(project.last_run)


@pytest.fixture
def after(project: Project, before: RunDir, molds: Molds) -> RunDir:
    """The run after a change; it misses both predictions."""
    molds.pour("review after", project, lambda made: run_with(made, 3))
    assert before.path == project.runs[0]
    return RunDir(project.last_run)


@pytest.fixture
def view(after: RunDir) -> RunView:
    return reading.view(after)


@pytest.fixture
def sealed(after: RunDir) -> str:
    return Path(after.ledger).read_text("utf-8")
