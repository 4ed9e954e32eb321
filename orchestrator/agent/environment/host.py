"""The machine and its operating system, from files the kernel keeps up to date."""

from __future__ import annotations

import datetime
import os
import platform
from typing import Dict, Optional

from orchestrator.agent.environment.field import Reading, Readings, known, unknown
from orchestrator.agent.environment.surroundings import Surroundings

_CPUINFO = "/proc/cpuinfo"


def readings(host: Surroundings) -> Readings:
    return {
        "host.name": known(platform.node(), "uname") if platform.node() else _no("uname"),
        "host.vendor": file_reading(host, "/sys/class/dmi/id/sys_vendor"),
        "host.product": _product(host),
        "host.hypervisor": _hypervisor(host),
        "host.container": _container(host),
        "host.boot_id": file_reading(host, "/proc/sys/kernel/random/boot_id"),
        "os.name": _os_name(host),
        "os.kernel": known(platform.release(), "uname"),
        "os.architecture": known(platform.machine(), "uname"),
        "os.libc": _libc(),
        "time.utc": known(utc_now(), "clock"),
        "time.uptime": _uptime(host),
        "time.clocksource": file_reading(
            host, "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
    }


def utc_now() -> str:
    """The host's clock, RFC 3339 in UTC with milliseconds."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def file_reading(host: Surroundings, path: str) -> Reading:
    """The text of a kernel file; unknown when it is missing, closed to us or empty."""
    text = host.read(path)
    if text is None:
        return unknown(path, f"{path} cannot be read here")
    return known(text, path) if text else unknown(path, f"{path} is empty")


def _no(source: str) -> Reading:
    return unknown(source, "the system does not tell")


def _product(host: Surroundings) -> Reading:
    product = file_reading(host, "/sys/class/dmi/id/product_name")
    if product.known:
        return product
    # Boards without DMI (Jetson and other Arm systems) describe themselves in the device tree.
    tree = "/proc/device-tree/model"
    model = (host.read(tree) or "").rstrip("\0")
    return known(model, tree) if model else product


def _hypervisor(host: Surroundings) -> Reading:
    kind = host.read("/sys/hypervisor/type")
    if kind:
        return known(kind, "/sys/hypervisor/type")
    cpuinfo = host.read(_CPUINFO)
    if cpuinfo is None or "flags" not in cpuinfo:
        return unknown(_CPUINFO, "the CPU flags do not tell")
    flags = cpuinfo[cpuinfo.index("flags") :].split("\n", 1)[0].split()
    return known("present" if "hypervisor" in flags else "none", _CPUINFO)


_CONTAINER_MARKS = {
    "docker": "docker",
    "kubepods": "kubernetes",
    "containerd": "containerd",
    "libpod": "podman",
    "lxc": "lxc",
}


def _container(host: Surroundings) -> Reading:
    if host.exists("/.dockerenv"):
        return known("docker", "/.dockerenv")
    if host.exists("/run/.containerenv"):
        return known("podman", "/run/.containerenv")
    if any(name.startswith(("APPTAINER_", "SINGULARITY_")) for name in os.environ):
        return known("apptainer", "environment")
    cgroup = host.read("/proc/self/cgroup")
    if cgroup is None:
        return unknown("/proc/self/cgroup", "/proc/self/cgroup cannot be read here")
    for mark, name in _CONTAINER_MARKS.items():
        if mark in cgroup:
            return known(name, "/proc/self/cgroup")
    return known("none", "/proc/self/cgroup")


def _os_name(host: Surroundings) -> Reading:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        name = _os_release(host.read(path)).get("PRETTY_NAME")
        if name:
            return known(name, path)
    return known(f"{platform.system()} {platform.release()}", "uname")


def _os_release(text: Optional[str]) -> Dict[str, str]:
    pairs = (line.split("=", 1) for line in (text or "").splitlines() if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}


def _libc() -> Reading:
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError, AttributeError):
        libc = None
    return known(libc, "confstr") if libc else unknown("confstr", "not the GNU C library")


def _uptime(host: Surroundings) -> Reading:
    text = host.read("/proc/uptime")
    try:
        return known(float((text or "").split()[0]), "/proc/uptime")
    except (IndexError, ValueError):
        return unknown("/proc/uptime", "/proc/uptime cannot be read here")
