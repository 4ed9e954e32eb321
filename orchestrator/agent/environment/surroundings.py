"""Where the host's files and tools are found, and which GPU vendors have left a trace there.

A tool alone proves nothing: nvidia-smi is installed on many nodes without a GPU. A driver or a
device node does, and only when both are missing is a host known to have no GPU.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import Optional, Tuple

from orchestrator.agent.environment.probe import find_tool

NVIDIA_TOOL_PLACES = (
    "/usr/bin",
    "/usr/local/nvidia/bin",
    "/usr/lib/wsl/lib",
    "/run/nvidia/driver/usr/bin",
)
AMD_TOOL_PLACES = ("/opt/rocm/bin", "/usr/bin")
HYGON_TOOL_PLACES = ("/opt/hyhal/bin", "/usr/local/hyhal/bin", "/opt/dtk/bin")
JETSON_TOOL_PLACES = ("/usr/bin",)

_NVIDIA_PCI = "0x10de"
_AMD_PCI = "0x1002"
_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")


@dataclass(frozen=True)
class Surroundings:
    """The host as files below `root` and tools on `path`; tests hand in another one."""

    root: str = "/"
    path: str = ""

    @staticmethod
    def here(path: str = "") -> Surroundings:
        """This host; `path` is the steps' PATH and is searched after the agent's own."""
        own = os.environ.get("PATH", os.defpath)
        return Surroundings("/", os.pathsep.join(part for part in (own, path) if part))

    def at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> Optional[str]:
        """The text of a small file, without the blanks around it; None when it cannot be read."""
        try:
            with open(self.at(path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def exists(self, *paths: str) -> bool:
        return any(os.path.exists(self.at(path)) for path in paths)

    def matches(self, pattern: str) -> Tuple[str, ...]:
        return tuple(sorted(glob.glob(self.at(pattern))))

    def tool(self, name: str, places: Tuple[str, ...] = ()) -> Optional[str]:
        return find_tool(name, self.path, places if self.root == "/" else ())


@dataclass(frozen=True)
class Traces:
    """What speaks for one vendor's GPUs on this host. Empty strings: nothing does."""

    vendor: str
    driver: str
    device: str
    tool: str

    @property
    def proven(self) -> bool:
        return bool(self.driver or self.device)

    @property
    def any(self) -> bool:
        return self.proven or bool(self.tool)

    def __str__(self) -> str:
        return ", ".join(trace for trace in (self.driver, self.device, self.tool) if trace)


def nvidia_traces(host: Surroundings) -> Traces:
    return Traces(
        "nvidia",
        _first(host, "/proc/driver/nvidia/version", "/sys/module/nvidia"),
        _first(host, "/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/dxg") or _pci(host, _NVIDIA_PCI),
        host.tool("nvidia-smi", NVIDIA_TOOL_PLACES) or "",
    )


def amd_traces(host: Surroundings) -> Traces:
    tool = host.tool("amd-smi", AMD_TOOL_PLACES) or host.tool("rocm-smi", AMD_TOOL_PLACES)
    return Traces(
        "amd",
        _first(host, "/sys/module/amdgpu"),
        _first(host, "/dev/kfd") or _pci(host, _AMD_PCI),
        tool or "",
    )


def hygon_traces(host: Surroundings) -> Traces:
    """No PCI vendor is looked for: public sources disagree about which one Hygon uses."""
    tool = host.tool("hy-smi", HYGON_TOOL_PLACES)
    if tool is None and host.matches("/opt/dtk*"):
        # Hygon's toolkit installs the same program under the name of AMD's.
        tool = host.tool("rocm-smi", HYGON_TOOL_PLACES)
    return Traces(
        "hygon",
        _first(host, "/sys/module/hydcu", "/sys/module/hycu"),
        _first(host, "/dev/mkfd"),
        tool or "",
    )


def jetson_traces(host: Surroundings) -> Traces:
    return Traces(
        "jetson",
        _first(host, "/etc/nv_tegra_release", "/sys/module/nvgpu"),
        _first(host, "/dev/nvhost-gpu", "/dev/nvgpu/igpu0"),
        host.tool("tegrastats", JETSON_TOOL_PLACES) or "",
    )


def _first(host: Surroundings, *patterns: str) -> str:
    for pattern in patterns:
        if host.matches(pattern):
            return pattern
    return ""


def _pci(host: Surroundings, vendor: str) -> str:
    for device in host.matches("/sys/bus/pci/devices/*/vendor"):
        folder = "/" + os.path.relpath(os.path.dirname(device), host.root)
        if host.read(f"{folder}/vendor") != vendor:
            continue
        if (host.read(f"{folder}/class") or "").startswith(_DISPLAY_CLASSES):
            return f"PCI device {os.path.basename(folder)}"
    return ""
