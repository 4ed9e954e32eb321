"""Room on the disks a run uses, and whether they are disks of this machine at all.

Compiler caches on a network file system are a known cause of slow starts and of stale kernels.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from orchestrator.agent.environment.field import Reading, Readings, known, not_applicable, unknown
from orchestrator.agent.environment.surroundings import Surroundings

_MOUNTS = "/proc/self/mountinfo"
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|gpfs|beegfs|ceph|glusterfs|afs|9p|orangefs|panfs|wekafs|vastnfs"
    r"|fuse\.(sshfs|s3fs|gcsfuse|rclone|juicefs|ceph-fuse|glusterfs|mount-s3|goofys|blobfuse2?)"
)


def readings(host: Surroundings, run_folder: str, tree: Optional[str]) -> Readings:
    """`run_folder` is where the run is kept; `tree` is its checkout, None before there is one."""
    mount, kind = _mount_of(host, run_folder)
    if tree is None:
        tree_free = tree_kind = not_applicable("", "there is no checkout yet")
    else:
        tree_free, tree_kind = _space(tree)[0], _mount_of(host, tree)[1]
    free, total = _space(run_folder)
    return {
        "disk.free": free,
        "disk.total": total,
        "disk.filesystem": kind,
        "disk.network": _is_network(kind),
        "disk.mount": mount,
        "disk.shm_free": _space("/dev/shm")[0],  # noqa: S108  asked about, never written to
        "disk.tree_free": tree_free,
        "disk.tree_filesystem": tree_kind,
    }


def _space(folder: str) -> Tuple[Reading, Reading]:
    """(free bytes for us, size in bytes) of the file system `folder` lies in or will lie in."""
    try:
        state = os.statvfs(_nearest(folder))
    except OSError as failure:
        gone = unknown("statvfs", f"{folder}: {failure.strerror}")
        return gone, gone
    free, total = state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize
    return known(free, "statvfs"), known(total, "statvfs")


def _nearest(folder: str) -> str:
    """The folder itself, or the lowest one above it that exists."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def _mount_of(host: Surroundings, folder: str) -> Tuple[Reading, Reading]:
    """(mount point, file-system type) of `folder`: the longest mount point above it wins."""
    table = host.read(_MOUNTS)
    if table is None:
        gone = unknown(_MOUNTS, f"{_MOUNTS} cannot be read here")
        return gone, gone
    where = os.path.realpath(folder)
    best, kind = "", ""
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        point = _unescaped(before.split()[4])
        # Of two mounts on one point the later one is seen.
        if _is_above(point, where) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    if not best:
        gone = unknown(_MOUNTS, f"no mount point above {where}")
        return gone, gone
    return known(best, _MOUNTS), known(kind, _MOUNTS)


def _is_above(point: str, where: str) -> bool:
    return where == point or where.startswith(point.rstrip("/") + "/")


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), point)


def _is_network(kind: Reading) -> Reading:
    if not kind.known:
        return kind
    return known(_NETWORK.fullmatch(kind.value) is not None, kind.source)
