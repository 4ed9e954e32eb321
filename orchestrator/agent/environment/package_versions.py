"""A program for the steps' own interpreter: which packages does it see? Prints one line of JSON.

It is run from its source text by whatever interpreter the steps use, looks where the steps will
look, and imports nothing that is asked about: importing torch takes seconds and may start a GPU.
Versions come from the metadata files that `importlib.metadata` reads too; importing that module
alone would take longer than all of this (45 ms of 67, measured), in the path of every run.
"""

from __future__ import annotations

import sys

# A file of the checkout named like one of the modules below must not be taken for it.
STEPS_PATH = list(sys.path)
sys.path[:] = [folder for folder in sys.path if folder]

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
from importlib.machinery import PathFinder  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402

WANTED = re.compile(
    r"torch|triton|pytorch-triton(-rocm)?|triton-rocm|numpy"
    r"|nvidia-(nccl|cublas|cudnn|cuda-runtime)(-cu\d+)?"
)
METADATA = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(-py\d.*)?\.(dist|egg)-info")
CONSTANT = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:'([^']*)'|\"([^\"]*)\"|(None|True|False))\s*$")


def main() -> None:
    sys.path[:] = STEPS_PATH
    problems: List[str] = []
    places = distributions()
    report = {
        "executable": sys.executable,
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "all": sorted(f"{name}=={folder_version(place)}" for name, place in places.items()),
        "versions": wanted_versions(places, problems),
        "torch_build": torch_build(problems),
        "problems": problems,
    }
    sys.stdout.write(json.dumps(report, sort_keys=True) + "\n")


def distributions() -> Dict[str, str]:
    """`{normal name: metadata folder}` of everything on the path; the first of a name is used."""
    found: Dict[str, str] = {}
    for folder in sys.path:
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            continue  # archives and folders that are not there are normal on a path
        for match in filter(None, map(METADATA.fullmatch, entries)):
            name = re.sub(r"[-_.]+", "-", match.group("name")).lower()
            found.setdefault(name, os.path.join(folder, match.group()))
    return found


def folder_version(place: str) -> str:
    match = METADATA.fullmatch(os.path.basename(place))
    return match.group("version") if match else ""


def wanted_versions(places: Dict[str, str], problems: List[str]) -> Dict[str, str]:
    """`{name: version}` of the packages that decide results."""
    versions: Dict[str, str] = {}
    for name in filter(WANTED.fullmatch, places):
        version = metadata_version(places[name])
        if version:
            versions[name] = version
        else:
            problems.append(f"{name}: no version in the metadata at {places[name]}")
    return versions


def metadata_version(place: str) -> Optional[str]:
    for file in (os.path.join(place, "METADATA"), os.path.join(place, "PKG-INFO"), place):
        match = re.search(r"^Version:\s*(\S+)", text_of(file) or "", re.MULTILINE)
        if match:
            return match.group(1)
    return None


def torch_build(problems: List[str]) -> Optional[Dict[str, Any]]:
    """The constants of torch/version.py, read as text; None when torch is not there."""
    spec = PathFinder.find_spec("torch", sys.path)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = os.path.join(next(iter(spec.submodule_search_locations)), "version.py")
    text = text_of(path)
    if text is None:
        problems.append(f"torch: {path} cannot be read")
        return None
    literals = {"None": None, "True": True, "False": False}
    found = filter(None, map(CONSTANT.match, text.splitlines()))
    return {m[1]: literals[m[4]] if m[4] else (m[2] or m[3] or "") for m in found}


def text_of(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


if __name__ == "__main__":
    main()
