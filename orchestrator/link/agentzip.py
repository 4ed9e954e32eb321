"""The agent as one zip: its modules, the NVML binding, and the guards of the linter.

The zip is the same bytes for the same files: a host that unpacked it before uses what it has.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_HERE = Path(__file__).resolve().parent
_AGENT = _HERE.parent / "agent"
_GUARD = _HERE.parent.parent / "preflight" / "guard.py"


@functools.cache
def name() -> str:
    """A name for this very agent: of the same files the same, of others another."""
    digest = hashlib.sha256()
    for member, content in sorted(_members().items()):
        digest.update(f"{member}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:20]


def files() -> int:
    """How many files it has; all of them are modules."""
    return len(_members())


@functools.cache
def build() -> bytes:
    """The zip."""
    # Ctrl-C comes to the main thread alone: a zip that it cuts short cannot even be closed.
    with ThreadPoolExecutor(1, thread_name_prefix="agent zip") as pool:
        return pool.submit(_zipped).result()


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in sorted(_members().items()):
            archive.writestr(zipfile.ZipInfo(member, _FIXED_TIME), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@functools.cache
def _members() -> dict[str, bytes]:
    members = {"orchestrator/__init__.py": b""}
    for path in _AGENT.rglob("*.py"):
        members[f"orchestrator/agent/{path.relative_to(_AGENT).as_posix()}"] = path.read_bytes()
    members["pynvml.py"] = _module_source("pynvml")
    if _GUARD.is_file():
        members["orchestrator/agent/payload/preflight_guard.py"] = _GUARD.read_bytes()
    return members


def _module_source(name: str) -> bytes:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is a dependency"
    assert spec.origin is not None, f"{name} is a plain module"
    return Path(spec.origin).read_bytes()
