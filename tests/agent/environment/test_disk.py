from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from orchestrator.agent.environment import disk
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost

MOUNTS = """22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
40 22 0:35 / /home rw,relatime - nfs4 filer:/home rw
41 40 0:36 / /home/local rw - xfs /dev/nvme1n1 rw
42 22 0:37 / /mnt/my\\040disk rw - fuse.sshfs user@host:/ rw
43 22 0:38 / /scratch rw - tmpfs tmpfs rw
44 22 0:39 / /scratch rw - lustre server:/scratch rw
"""


@pytest.mark.parametrize(
    ("folder", "kind", "network", "mount"),
    [
        ("/var/run", "ext4", False, "/"),
        ("/home/user/.orch", "nfs4", True, "/home"),
        ("/home/local/run", "xfs", False, "/home/local"),
        ("/homeless", "ext4", False, "/"),
        ("/mnt/my disk/run", "fuse.sshfs", True, "/mnt/my disk"),
        ("/scratch/run", "lustre", True, "/scratch"),
    ],
)
def test_the_file_system_of_a_folder(
    fake_host: FakeHost, folder: str, kind: str, network: bool, mount: str
) -> None:
    fake_host.file("/proc/self/mountinfo", MOUNTS)

    found = disk.readings(fake_host.surroundings, folder, None)

    assert found["disk.filesystem"].value == kind
    assert found["disk.network"].value is network
    assert found["disk.mount"].value == mount


def test_an_unknown_file_system_is_not_called_local(fake_host: FakeHost) -> None:
    found = disk.readings(fake_host.surroundings, "/anywhere", None)

    assert found["disk.network"].state == "unknown"


@pytest.mark.skipif(platform.system() != "Linux", reason="reads Linux's own files")
def test_free_bytes_are_those_of_the_disk_the_run_will_lie_on(tmp_path: Path) -> None:
    state = os.statvfs(tmp_path)

    found = disk.readings(
        Surroundings.here(), str(tmp_path / "not" / "yet" / "there"), str(tmp_path)
    )

    assert found["disk.total"].value == state.f_blocks * state.f_frsize
    assert 0 < found["disk.free"].value <= found["disk.total"].value
    assert found["disk.tree_filesystem"].known


def test_before_there_is_a_checkout_its_disk_is_not_applicable(tmp_path: Path) -> None:
    found = disk.readings(Surroundings.here(), str(tmp_path), None)

    assert found["disk.tree_free"].state == "not_applicable"
