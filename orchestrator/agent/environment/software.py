"""The software the steps will see: their interpreter and its packages, nvcc, ROCm.

The steps' interpreter is asked in a small process of its own, in the steps' environment and folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import re
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from orchestrator.agent.environment.field import (
    Reading,
    Readings,
    error,
    known,
    not_applicable,
    unknown,
)
from orchestrator.agent.environment.probe import Answer, Command, find_tool
from orchestrator.agent.environment.surroundings import Surroundings

_METADATA = "package metadata"
_VERSION_FILE = "torch/version.py"
_PROGRAM = "package_versions.py"

_PACKAGES: Mapping[str, Tuple[str, ...]] = {
    "torch.version": ("torch",),
    "triton.version": ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm"),
    "numpy.version": ("numpy",),
}
_LIBRARIES: Mapping[str, str] = {
    "nccl.version": "nvidia-nccl",
    "cublas.version": "nvidia-cublas",
    "cudnn.version": "nvidia-cudnn",
    "cuda.runtime": "nvidia-cuda-runtime",
}
_BUILD = {"torch.cuda": "cuda", "torch.hip": "hip", "torch.git": "git_version"}
_PYTHON = ("executable", "version", "implementation", "prefix")


def packages_command(python: Sequence[str], env: Mapping[str, str], folder: str) -> Command:
    """The package program in the steps' interpreter, where the steps will run."""
    program = pkgutil.get_data(__package__, _PROGRAM)
    if program is None:
        raise FileNotFoundError(f"{_PROGRAM} is not packed beside {__name__}")
    argv = (*python, "-c", program.decode("utf-8"))
    return Command(argv, env, folder, shown=(*python, _PROGRAM))


def package_readings(answer: Answer) -> Readings:
    report, problem = _report(answer)
    if report is None:
        return {key: error(_PROGRAM, problem) for key in PACKAGE_KEYS}
    build = report["torch_build"]
    return {
        **{f"python.{name}": known(report[name], "sys") for name in _PYTHON},
        "python.packages": known(len(report["all"]), "sys.path"),
        "python.packages_sha256": known(_fingerprint(report["all"]), "sys.path"),
        **{key: _package(report, names) for key, names in _PACKAGES.items()},
        **{key: _library(report, stem) for key, stem in _LIBRARIES.items()},
        **{key: _constant(build, name) for key, name in _BUILD.items()},
        "torch.debug": _constant(build, "debug"),
    }


PACKAGE_KEYS: Tuple[str, ...] = (
    *(f"python.{name}" for name in _PYTHON),
    "python.packages",
    "python.packages_sha256",
    *_PACKAGES,
    *_LIBRARIES,
    *_BUILD,
    "torch.debug",
)


def _report(answer: Answer) -> Tuple[Optional[Dict[str, Any]], str]:
    if answer.problem:
        return None, f"the steps' interpreter {answer.problem}"
    lines = [line for line in answer.text.splitlines() if line.startswith("{")]
    try:
        report: Dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None, f"the steps' interpreter printed no report: {answer.last_words}"
    return report, ""


def _fingerprint(pins: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(pins).encode("utf-8")).hexdigest()


def _package(report: Mapping[str, Any], names: Sequence[str]) -> Reading:
    versions: Mapping[str, str] = report["versions"]
    for name in names:
        if name in versions:
            return known(versions[name], _METADATA)
    broken = [text for text in report["problems"] if text.startswith(tuple(names))]
    if broken:
        return error(_METADATA, "; ".join(broken))
    if names[0] == "torch" and report["torch_build"]:
        return _constant(report["torch_build"], "__version__")
    return not_applicable(_METADATA, f"{names[0]} is not installed for this interpreter")


def _library(report: Mapping[str, Any], stem: str) -> Reading:
    found = {
        name: version
        for name, version in report["versions"].items()
        if re.fullmatch(stem + r"(-cu\d+)?", name)
    }
    if len(found) == 1:
        return known(next(iter(found.values())), _METADATA)
    if found:
        # Two generations side by side: which one is loaded is decided at run time.
        return known(", ".join(f"{name} {found[name]}" for name in sorted(found)), _METADATA)
    build = report["torch_build"]
    if not build:
        return not_applicable(_METADATA, "torch is not installed for this interpreter")
    if not build.get("cuda") and not build.get("hip"):
        return not_applicable(_METADATA, "torch is built without CUDA and HIP")
    return unknown(_METADATA, f"no package {stem}; one of the system is not looked for")


def _constant(build: Optional[Mapping[str, Any]], name: str) -> Reading:
    if not build:
        return not_applicable(_VERSION_FILE, "torch is not installed for this interpreter")
    if name not in build:
        return unknown(_VERSION_FILE, f"{_VERSION_FILE} has no `{name}`")
    if build[name] is None:
        return not_applicable(_VERSION_FILE, f"`{name}` is None in this build")
    return known(build[name], _VERSION_FILE)


def find_nvcc(env: Mapping[str, str], host: Surroundings) -> Optional[str]:
    """The nvcc a build step would call: on its PATH, in its CUDA_HOME, in the usual place."""
    homes = [env[name] for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    places = [os.path.join(home, "bin") for home in (*homes, host.at("/usr/local/cuda"))]
    return find_tool("nvcc", env.get("PATH", ""), places)


def nvcc_readings(answer: Optional[Answer]) -> Readings:
    if answer is None:
        gone = not_applicable(
            "PATH", "no nvcc on the steps' PATH, in CUDA_HOME, in /usr/local/cuda"
        )
        return {"cuda.nvcc": gone, "cuda.nvcc_path": gone}
    path = known(answer.command[0], "PATH")
    return {"cuda.nvcc": _nvcc_version(answer), "cuda.nvcc_path": path}


def _nvcc_version(answer: Answer) -> Reading:
    source = "nvcc --version"
    if answer.problem:
        return error(source, answer.problem)
    match = re.search(r"\bV(\d+\.\d+\.\d+)", answer.text) or re.search(
        r"release (\d+\.\d+)", answer.text
    )
    if match is None:
        return error(source, f"no version in what it printed: {answer.last_words}")
    return known(match.group(1), source)


def rocm_reading(env: Mapping[str, str], host: Surroundings) -> Reading:
    homes = [env[name] for name in ("ROCM_PATH", "ROCM_HOME") if env.get(name)]
    files = [os.path.join(home, ".info/version") for home in (*homes, "/opt/rocm")]
    for path in files:
        version = host.read(path)
        if version:
            return known(version, path)
    return not_applicable(files[-1], "no ROCm in ROCM_PATH or /opt/rocm")
