"""What this process may use: the cgroup's share of CPU and memory, and the ulimits that bite."""

from __future__ import annotations

import os
import resource
from typing import Callable, Iterator, List, Optional

from orchestrator.agent.environment.cpu import condensed
from orchestrator.agent.environment.field import Reading, Readings, known, unknown, whole
from orchestrator.agent.environment.surroundings import Surroundings

UNLIMITED = "unlimited"
_CGROUP = "/sys/fs/cgroup"
# cgroup v1 writes "no limit" as a number close to 2**63.
_NO_LIMIT_BYTES = 1 << 60


def readings(host: Surroundings) -> Readings:
    return {
        "limits.cpu_quota": _lowest(host, "cpu", _cpu_quota_v2, _cpu_quota_v1),
        "limits.cpuset": _cpuset(),
        "limits.memory": _lowest(host, "memory", _memory_v2, _memory_v1),
        "limits.locked_memory": _ulimit("RLIMIT_MEMLOCK"),
        "limits.open_files": _ulimit("RLIMIT_NOFILE"),
        "limits.stack": _ulimit("RLIMIT_STACK"),
        "limits.processes": _ulimit("RLIMIT_NPROC"),
        "limits.core": _ulimit("RLIMIT_CORE"),
    }


def _ulimit(name: str) -> Reading:
    soft, _ = resource.getrlimit(getattr(resource, name))
    return known(UNLIMITED if soft == resource.RLIM_INFINITY else soft, "getrlimit")


def _cpuset() -> Reading:
    if not hasattr(os, "sched_getaffinity"):
        return unknown("sched_getaffinity", "this system has no CPU affinity")
    return known(condensed(list(os.sched_getaffinity(0))), "sched_getaffinity")


# The limit one level sets: None when it sets none, or when the level has no such file.
_Limit = Callable[[Surroundings, str], Optional[float]]


def _lowest(host: Surroundings, controller: str, of_v2: _Limit, of_v1: _Limit) -> Reading:
    """The tightest limit on the way from our cgroup up to the root; each level may set one."""
    memberships = host.read("/proc/self/cgroup")
    if memberships is None:
        return unknown("/proc/self/cgroup", "this system has no cgroups")
    found: List[float] = []
    mounted = False
    for line in memberships.splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mounted |= host.exists(f"{_CGROUP}/cgroup.controllers")
            found += _limits(host, group, of_v2)
        elif controller in controllers.split(","):
            mounted |= host.exists(f"{_CGROUP}/{controller}")
            found += _limits(host, group, of_v1)
    if found:
        return known(whole(min(found)), _CGROUP)
    if mounted:
        return known(UNLIMITED, _CGROUP)
    return unknown(_CGROUP, f"no cgroup file system at {_CGROUP}: a limit could not be seen")


def _limits(host: Surroundings, group: str, limit_of: _Limit) -> List[float]:
    limits = (limit_of(host, level) for level in _upwards(group))
    return [limit for limit in limits if limit is not None]


def _upwards(group: str) -> Iterator[str]:
    """The group's path and those of all above it. Inside a container the mount's root is ours."""
    parts = [part for part in group.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        yield "/".join(parts[:length])


def _cpu_quota_v2(host: Surroundings, group: str) -> Optional[float]:
    fields = (host.read(f"{_CGROUP}/{group}/cpu.max") or "").split()
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0] != "max" else None


def _cpu_quota_v1(host: Surroundings, group: str) -> Optional[float]:
    folder = f"{_CGROUP}/cpu/{group}"
    quota = host.read(f"{folder}/cpu.cfs_quota_us")
    period = host.read(f"{folder}/cpu.cfs_period_us")
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _memory_v2(host: Surroundings, group: str) -> Optional[float]:
    text = host.read(f"{_CGROUP}/{group}/memory.max")
    return float(text) if text and text != "max" else None


def _memory_v1(host: Surroundings, group: str) -> Optional[float]:
    text = host.read(f"{_CGROUP}/memory/{group}/memory.limit_in_bytes")
    return float(text) if text and int(text) < _NO_LIMIT_BYTES else None
