"""The package as it reaches a host: in an archive, on the path of whatever Python is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT
from .test_nvidia_nvml import FAKE_MODULE

PROGRAM = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from orchestrator.agent.environment import drift, gpu_state_text, nvidia_nvml, snapshot
from orchestrator.agent.environment.nvidia_nvml import command, parse
from orchestrator.agent.environment.probe import Deadline, ask

taken = [
    snapshot(phase, sys.argv[2], tree=None, python=[sys.executable], env=dict(os.environ),
             own_pids=[os.getpid()], deadline_s=20)
    for phase in ("before", "after")
]
print(json.dumps({
    "file": nvidia_nvml.__file__,
    "errors": {k: f["detail"] for k, f in taken[0]["fields"].items() if f["state"] == "error"},
    "python": taken[0]["fields"]["python.version"]["value"],
    "drift": [change for change in drift(*taken) if change["severity"] == "identity"],
    "uuids": [gpu["uuid"].value for gpu in parse(ask(command(), Deadline(20))).gpus],
    "text": gpu_state_text(5),
}))
"""


def interpreters() -> list[str]:
    """Every Python the agent may meet that this machine has, from the oldest supported on."""
    names = [f"python3.{minor}" for minor in range(8, 15)]
    found = [path for path in map(shutil.which, names) if path is not None and works(path)]
    versions = Path.home() / ".pyenv" / "versions"
    found += [str(path) for path in sorted(versions.glob("3.*/bin/python3")) if minor(path) >= 8]
    return found or [sys.executable]


def works(path: str) -> bool:
    return (
        subprocess.run([path, "-c", ""], capture_output=True, check=False, timeout=20).returncode
        == 0
    )


def minor(path: Path) -> int:
    return int(path.parents[1].name.split(".")[1])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "agent.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.write(ROOT / "orchestrator" / "__init__.py", "orchestrator/__init__.py")
        for source in sorted((ROOT / "orchestrator" / "agent").rglob("*.py")):
            packed.write(source, str(source.relative_to(ROOT)))
        packed.writestr("pynvml.py", FAKE_MODULE.format(init="return None", stuck=-1))
    return path


@pytest.mark.parametrize("python", interpreters())
def test_everything_works_from_an_archive(python: str, archive: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [python, "-W", "error", "-c", PROGRAM, str(archive), str(tmp_path / "raw")],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
        cwd=tmp_path,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["file"].startswith(str(archive))
    assert told["errors"] == {}
    assert [change for change in told["drift"] if not was_late(change)] == []
    assert told["uuids"] == ["GPU-0", "GPU-1"]
    assert told["python"].startswith("3.")


def was_late(change: dict[str, Any]) -> bool:
    """On a busy machine a tool may be late once: that is told, and no fault of the archive."""
    sides = (change["before"], change["after"])
    return any(side is not None and "did not answer" in side["detail"] for side in sides)
