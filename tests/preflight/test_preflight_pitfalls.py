"""The ten pitfalls of the seeds' table, each as a small file: all are caught and explained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from preflight.cli import main
from preflight.rule import registry

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Pitfall:
    folder: str
    rule: str
    place: str
    options: tuple[str, ...] = ()


LINTED = (
    Pitfall("01_default_device", "default-device-set", "worker.py:5:5"),
    Pitfall("02_pcie_atomics", "system-atomic-on-pcie", "notify.cu:3:5"),
    Pitfall("03_row_map", "warpgroup-store-unproven", "store.cu:4:3", ("--profile", "pedantic")),
    Pitfall("04_barriers", "named-barrier-zero", "persistent.cu:2:3"),
    Pitfall("07_spin_residency", "spin-grid-over-residency", "wait.cu:6:34"),
    Pitfall("08_flag_reset", "flag-set-and-cleared", "flag.cu:5:3", ("--profile", "pedantic")),
    Pitfall("09_crlf", "carriage-return", "run.sh:1:1"),
    Pitfall("10_stale_build", "cache-key-without-content", "build.py:7:8"),
)
SCHEDULED = (
    Pitfall("03_row_map", "schedule-rows", "rows 0 to 3 hold 4 to 7"),
    Pitfall("05_arrival_order", "schedule-order", "position 1 consumes chunk `r1c0`"),
    Pitfall("06_block_per_job", "schedule-waves", "2048 jobs on 24 SMs run in 86 waves, 344 us"),
)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy outside the repository, whose own configuration excludes these files."""
    for file in CORPUS.rglob("*"):
        if file.is_file():
            target = tmp_path / file.relative_to(CORPUS)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("pitfall", LINTED, ids=lambda pitfall: pitfall.folder)
def test_the_linter_catches_it(
    pitfall: Pitfall,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(corpus / pitfall.folder)

    code = main([".", "--no-cache", "--strict", *pitfall.options])

    text = capsys.readouterr().out
    card = registry()[pitfall.rule].card
    assert code == 1
    assert f"[{pitfall.rule}]" in text
    assert pitfall.place in text
    assert f"why:  {card.consequence}" in text
    assert f"help: {card.help}" in text


@pytest.mark.parametrize("pitfall", SCHEDULED, ids=lambda pitfall: pitfall.folder)
def test_the_schedule_checker_catches_it(
    pitfall: Pitfall, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["schedule", str(corpus / pitfall.folder / "schedule.json")])

    text = capsys.readouterr().out
    assert code == 1
    assert f"error[{pitfall.rule}]" in text
    assert pitfall.place in text
    assert text.splitlines()[0].count("; ") >= 2


def test_the_guard_catches_the_default_device_at_run_time(corpus: Path) -> None:
    pytest.importorskip("torch", reason="the guard watches torch")
    script = corpus / "run.py"
    guard = Path(__file__).resolve().parents[2] / "preflight" / "guard.py"
    (corpus / "preflight_guard.py").write_bytes(guard.read_bytes())
    # `meta` stands for a GPU: a device that is not the CPU and needs no hardware.
    source = (
        (corpus / "01_default_device" / "worker.py").read_text("utf-8").replace('"cuda"', '"meta"')
    )
    script.write_text(
        "import preflight_guard\npreflight_guard.activate_from_env()\n"
        + source
        + "\nworker(0, 5)\n",
        "utf-8",
    )

    result = subprocess.run(
        [sys.executable, str(script)],
        env={"ORCH_GUARDS": "implicit-device", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert result.returncode == 86
    assert "run.py:8: error[implicit-device] `torch.zeros` without `device=`" in result.stderr
    assert "run.py:10: error[implicit-device] one element is stored" in result.stderr
    assert "(5 times)" in result.stderr
    assert 'write `device="cpu"`' in result.stderr


def test_every_pitfall_of_the_table_has_a_case() -> None:
    covered = {int(p.folder[:2]) for p in (*LINTED, *SCHEDULED)}

    assert covered == set(range(1, 11))
