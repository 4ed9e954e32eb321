"""Removing for good: whole or not at all, also what a step made unwritable."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from orchestrator.agent import removal
from tests.agent.controller import ROOT

NOBODY = 65534


def test_a_directory_goes_with_everything_in_it(tmp_path: Path) -> None:
    (tmp_path / "run" / "tree").mkdir(parents=True)
    (tmp_path / "run" / "tree" / "a").write_bytes(b"x")

    removal.remove(str(tmp_path / "run"))

    assert list(tmp_path.iterdir()) == []


def test_one_that_is_gone_already_is_fine(tmp_path: Path) -> None:
    removal.remove(str(tmp_path / "run"))
    removal.clear(str(tmp_path / "run"))

    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(outside)

    removal.remove(str(tmp_path / "run"))

    assert list(tmp_path.iterdir()) == [outside]
    assert outside.stat().st_mode & 0o777 == 0o500


def test_directories_that_nobody_may_write_into_go_too() -> None:
    # Not under pytest's own directory, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o777)
        program = f"""
import os
from orchestrator.agent import removal
if os.getuid() == 0:
    os.setuid({NOBODY})
os.makedirs({name!r} + "/run/cache/module")
open({name!r} + "/run/cache/module/file", "w").close()
os.chmod({name!r} + "/run/cache/module", 0o500)
os.chmod({name!r} + "/run/cache", 0)
removal.remove({name!r} + "/run")
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert done.stderr == ""
        assert list(top.iterdir()) == []


def test_two_that_clear_one_directory_do_not_stop_each_other(tmp_path: Path) -> None:
    top = tmp_path / ".gone-x"
    for n in range(300):
        (top / str(n) / "inner").mkdir(parents=True)
    clearing = "import sys; from orchestrator.agent import removal; removal.clear(sys.argv[1])"

    others = [
        subprocess.Popen(
            [sys.executable, "-c", clearing, str(top)], cwd=ROOT, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]

    assert [(other.communicate(timeout=60)[1], other.returncode) for other in others] == [
        (b"", 0)
    ] * 3
    assert not top.exists()
