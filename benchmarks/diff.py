"""How long and how much memory a pair of large safetensors files takes; numpy's allclose beside it.

    python benchmarks/diff.py [--bytes 1000000000] [--rounds 3] [--folder DIR]

Two files of bfloat16, float32 and 8-bit float tensors in which every element of B is moved by up to
two steps: nothing can be skipped, and ten elements lie outside the tolerance. Ours is a whole
`orch diff` of two files in a fresh process; the peer loads the same tensors with numpy, one by one,
and asks its `allclose`, which says yes or no. Exit status 1 when a budget is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BUDGET_S = 15.0
BUDGET_BYTES = 500_000_000
TIMEOUT_S = 600
# Share of the bytes, numpy dtype, safetensors name.
PARTS = (
    (0.6, ml_dtypes.bfloat16, "BF16"),
    (0.3, np.float32, "F32"),
    (0.1, ml_dtypes.float8_e4m3fn, "F8_E4M3"),
)
COLUMNS = 4096

OURS = """
import json, resource, sys, time
start = time.perf_counter()
from pathlib import Path
from orchestrator.diff.comparison import compare
found = compare(sys.argv[1], sys.argv[2], Path('.')).artifacts[0]
print(json.dumps({
    's': time.perf_counter() - start,
    'status': found.status,
    'outside': found.metrics.get('outside'),
    'own_kib': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    'child_kib': resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
}))
"""
PEER = """
import json, resource, sys, time
start = time.perf_counter()
import ml_dtypes, numpy as np
kinds = {'BF16': ml_dtypes.bfloat16, 'F32': np.float32, 'F8_E4M3': ml_dtypes.float8_e4m3fn}
with open(sys.argv[1], 'rb') as a, open(sys.argv[2], 'rb') as b:
    length = int.from_bytes(a.read(8), 'little')
    b.seek(8 + length)
    same = True
    for facts in json.loads(a.read(length)).values():
        kind, count = kinds[facts['dtype']], facts['shape'][0] * facts['shape'][1]
        one, two = np.fromfile(a, kind, count), np.fromfile(b, kind, count)
        same &= bool(np.allclose(one, two))
print(json.dumps({
    's': time.perf_counter() - start,
    'status': same,
    'own_kib': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files are made; on a disk, not in memory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        a, b = Path(folder) / "a.safetensors", Path(folder) / "b.safetensors"
        write_pair(a, b, arguments.bytes)
        print(f"two files of {a.stat().st_size / 1e9:.2f} GB")
        ours = [run(OURS, a, b) for _ in range(arguments.rounds)]
        peer = [run(PEER, a, b) for _ in range(arguments.rounds)]
    return report(ours, peer)


def write_pair(a: Path, b: Path, size: int) -> None:
    """Write both files tensor by tensor, so that making them takes little memory."""
    header: dict[str, object] = {}
    offset = 0
    shapes = []
    for share, kind, name in PARTS:
        rows = round(share * size / 4 / np.dtype(kind).itemsize / COLUMNS)
        for number in range(4):
            length = rows * COLUMNS * np.dtype(kind).itemsize
            header[f"{name.lower()}.{number}"] = {
                "dtype": name,
                "shape": [rows, COLUMNS],
                "data_offsets": [offset, offset + length],
            }
            shapes.append((kind, rows))
            offset += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(0)
    with a.open("wb") as file_a, b.open("wb") as file_b:
        for file in (file_a, file_b):
            file.write(len(text).to_bytes(8, "little") + text)
        for place, (kind, rows) in enumerate(shapes):
            write_tensor(file_a, file_b, kind, rows, random, outside=place == 0)


def write_tensor(file_a, file_b, kind, rows, random, *, outside: bool) -> None:  # type: ignore[no-untyped-def]
    bits = np.dtype(f"u{np.dtype(kind).itemsize}")
    for start in range(0, rows, 1024):
        count = min(1024, rows - start)
        values = random.standard_normal((count, COLUMNS), np.float32).astype(kind)
        steps = random.integers(1, 3 if kind is not ml_dtypes.float8_e4m3fn else 2, values.shape)
        moved = (values.view(bits) + steps.astype(bits)).view(kind)
        if outside and start == 0:
            moved[0, :10] = 100
        file_a.write(values.tobytes())
        file_b.write(moved.tobytes())


def run(program: str, a: Path, b: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(a), str(b)],
        cwd=ROOT,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"failed:\n{done.stderr.decode()}")
    return dict(json.loads(done.stdout))


def report(ours: list[dict[str, float]], peer: list[dict[str, float]]) -> int:
    seconds = statistics.median(one["s"] for one in ours)
    most_bytes = max((one["own_kib"] + one["child_kib"]) * 1024 for one in ours)
    peer_s = statistics.median(one["s"] for one in peer)
    peer_bytes = max(one["own_kib"] * 1024 for one in peer)
    print(
        f"orch diff       {seconds:6.2f} s  {most_bytes / 1e6:6.0f} MB  {ours[0]['status']},"
        f" {ours[0]['outside']} elements outside"
    )
    print(f"numpy allclose  {peer_s:6.2f} s  {peer_bytes / 1e6:6.0f} MB  {peer[0]['status']}")
    print(f"ratio           {seconds / peer_s:6.2f}    {most_bytes / peer_bytes:6.2f}")
    print(f"budget          {BUDGET_S:6.2f} s  {BUDGET_BYTES / 1e6:6.0f} MB")
    return int(seconds > BUDGET_S or most_bytes > BUDGET_BYTES)


if __name__ == "__main__":
    raise SystemExit(main())
