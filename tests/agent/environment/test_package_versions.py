from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.agent.environment import package_versions

PROGRAM = Path(package_versions.__file__)


def report(folder: Path, *, cwd: Path | None = None) -> dict[str, object]:
    """What the program prints with `folder` first on the path."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text("utf-8")],
        env={"PYTHONPATH": str(folder)},
        cwd=cwd or folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return dict(json.loads(ran.stdout))


def install(folder: Path, name: str, version: str, metadata: str | None = None) -> Path:
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9 in the text\n"
    (place / "METADATA").write_text(text if metadata is None else metadata)
    return place


def test_versions_are_those_importlib_metadata_would_tell() -> None:
    told = report(Path("/"))["versions"]

    assert isinstance(told, dict)
    names = [name for name in ("torch", "triton", "numpy") if name in told]
    if not names:
        pytest.skip("neither torch, triton nor numpy is installed here")
    assert {n: told[n] for n in names} == {n: importlib.metadata.version(n) for n in names}


def test_the_version_stands_in_the_metadata_and_not_in_the_name_of_the_folder(
    tmp_path: Path,
) -> None:
    install(tmp_path, "torch", "2.9.0", "Name: torch\nVersion: 2.9.0+cu130\n")

    assert report(tmp_path)["versions"]["torch"] == "2.9.0+cu130"  # type: ignore[index]


def test_the_first_package_on_the_path_is_the_one_that_counts(tmp_path: Path) -> None:
    install(tmp_path / "a", "numpy", "1.0")
    install(tmp_path / "b", "numpy", "2.0")

    ran = report(Path(f"{tmp_path / 'a'}:{tmp_path / 'b'}"), cwd=tmp_path)

    assert ran["versions"]["numpy"] == "1.0"  # type: ignore[index]


def test_names_are_normalised(tmp_path: Path) -> None:
    install(tmp_path, "nvidia_nccl_cu13", "2.28.9")

    told = report(tmp_path)

    assert told["versions"]["nvidia-nccl-cu13"] == "2.28.9"  # type: ignore[index]
    assert "nvidia-nccl-cu13==2.28.9" in told["all"]  # type: ignore[operator]


def test_damaged_metadata_is_told(tmp_path: Path) -> None:
    install(tmp_path, "triton", "3.6.0", "Name: triton\n")

    told = report(tmp_path)

    assert "triton" not in told["versions"]  # type: ignore[operator]
    assert told["problems"][0].startswith("triton: no version")  # type: ignore[index]


def test_torch_is_read_and_never_imported(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.11.0+cu130'\ndebug = False\n"
        "cuda: Optional[str] = '13.0'\ngit_version = \"abc123\"\nhip: Optional[str] = None\n"
        "raise SystemExit('imported')\n"
    )

    told = report(tmp_path)["torch_build"]

    assert told == {
        "__version__": "2.11.0+cu130",
        "debug": False,
        "cuda": "13.0",
        "git_version": "abc123",
        "hip": None,
    }


def test_without_torch_there_is_no_build(tmp_path: Path) -> None:
    isolated = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM.read_text("utf-8")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert json.loads(isolated.stdout)["torch_build"] is None


def test_a_checkout_with_a_file_named_like_a_module_of_ours_does_no_harm(tmp_path: Path) -> None:
    for name in ("json", "re", "os", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the checkout was imported')")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text("utf-8")],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert ran.returncode == 0
    assert json.loads(ran.stdout)["executable"]


def test_the_fingerprint_list_has_every_package_once(tmp_path: Path) -> None:
    install(tmp_path, "one", "1.0")
    install(tmp_path, "two_parts", "2.0.post1")
    (tmp_path / "three-3.0-py3.11.egg-info").write_text("Name: three\nVersion: 3.0\n")

    pins = report(tmp_path)["all"]

    assert isinstance(pins, list)
    assert {"one==1.0", "two-parts==2.0.post1", "three==3.0"} <= set(pins)
    assert len(pins) == len({pin.split("==")[0] for pin in pins})
