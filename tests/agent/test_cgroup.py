"""Control groups: made where that is allowed, entered, killed in one stroke, and removed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.agent import cgroup
from orchestrator.agent.cgroup import Group, Unavailable
from tests.agent.controller import wait_until


@pytest.fixture
def group() -> Iterator[Group]:
    """A group of ours, in the real kernel."""
    try:
        made = Group.of_run(f"test-{os.getpid()}")
    except Unavailable as reason:
        pytest.skip(f"no control group can be made here: {reason}")
    yield made
    if Path(made.path).exists():
        made.kill()
        assert made.remove()


def start_inside(group: Group, script: str) -> subprocess.Popen[bytes]:
    program = (
        "import os, sys; from orchestrator.agent import cgroup; cgroup.enter(sys.argv[1]); "
        "os.execvp('bash', ['bash', '-c', sys.argv[2]])"
    )
    process = subprocess.Popen([sys.executable, "-c", program, group.entrance, script])
    wait_until(lambda: process.pid in group.pids(), "the process to enter")
    return process


class TestInTheKernel:
    def test_what_is_started_inside_stays_inside_however_it_hides(self, group: Group) -> None:
        leader = start_inside(group, "setsid env -i sleep 60.125 & disown; sleep 60.5")
        wait_until(lambda: len(group.pids()) == 2, "the escapee")

        group.kill()

        assert leader.wait(30) == -9
        wait_until(lambda: group.pids() == [], "everything in the group to die")

    def test_it_holds_who_is_in_it_or_below_and_nobody_else(self, group: Group) -> None:
        below = group.child("1")
        process = start_inside(below, "sleep 60")

        assert group.holds(process.pid)
        assert below.holds(process.pid)
        assert not group.child("2").holds(process.pid)
        assert not group.child("11").holds(process.pid)
        assert not group.holds(os.getpid())
        assert group.pids() == [process.pid]

        group.kill()
        process.wait(30)

    def test_it_holds_one_that_ended_and_is_not_reaped(self, group: Group) -> None:
        process = start_inside(group, "sleep 60")
        process.kill()
        wait_until(lambda: group.pids() == [], "the process to die")

        assert group.holds(process.pid)

        process.wait(30)

    def test_it_goes_with_the_groups_that_a_step_made_inside(self, group: Group) -> None:
        Path(group.path, "podman", "inner").mkdir(parents=True)

        assert group.remove()
        assert not Path(group.path).exists()

    def test_it_stays_while_somebody_is_in_it(self, group: Group) -> None:
        process = start_inside(group, "sleep 60")

        assert not group.remove()
        assert group.pids() == [process.pid]

        group.kill()
        process.wait(30)

    def test_it_is_found_again_by_its_path_while_it_is_there(self, group: Group) -> None:
        found = Group.at(group.path)
        assert found is not None
        assert found.path == group.path

        group.remove()

        assert Group.at(group.path) is None

    def test_a_group_that_is_not_ours_is_not_taken_for_ours(self, group: Group) -> None:
        other = Path(group.path, "system.slice")
        other.mkdir()

        assert Group.at(str(other)) is None
        assert Group.at("") is None


class TestWhereItWouldBe:
    """Read from copies of the two files that say so, as they look on various hosts."""

    @pytest.mark.parametrize(
        ("own", "mounts", "folder"),
        [
            ("0::/\n", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "/sys/fs/cgroup"),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice\n",
                "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate",
                "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice",
            ),
            (
                "4:memory:/x\n0::/x\n",
                (
                    "30 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                    "31 30 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
                ),
                "/sys/fs/cgroup/unified/x",
            ),
            (
                "0::/docker/ab/inner\n",
                "30 1 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw",
                "/sys/fs/cgroup/inner",
            ),
            (
                "0::/a\n",
                r"30 1 0:26 / /mnt/my\040groups rw - cgroup2 cgroup rw",
                "/mnt/my groups/a",
            ),
        ],
    )
    def test_is_below_our_own(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, mounts: str, folder: str
    ) -> None:
        self.pretend(monkeypatch, tmp_path, own, mounts)

        assert cgroup.own_folder() == folder

    @pytest.mark.parametrize(
        ("own", "mounts", "why"),
        [
            ("4:memory:/x\n", "", "in no control group of version 2"),
            ("0::/../outside\n", "30 1 0:26 / /c rw - cgroup2 cgroup rw", "in no control group"),
            ("0::/x\n", "30 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw", "is mounted here"),
            ("0::/x\n", "30 1 0:26 /docker/ab /c rw - cgroup2 cgroup rw", "is mounted here"),
            (
                "0::/gone\n",
                "30 1 0:26 / /no/such rw - cgroup2 cgroup rw",
                "made in /no/such/gone: No such",
            ),
        ],
    )
    def test_is_nowhere_and_the_reason_is_told(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, mounts: str, why: str
    ) -> None:
        self.pretend(monkeypatch, tmp_path, own, mounts)

        with pytest.raises(Unavailable, match=why):
            Group.of_run("r")

    def test_a_directory_that_is_no_control_group_is_refused_and_left_clean(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        place = tmp_path / "place"
        place.mkdir()
        self.pretend(monkeypatch, tmp_path, "0::/\n", f"3 1 0:2 / {place} rw - cgroup2 cgroup rw")

        with pytest.raises(Unavailable, match=r"no cgroup\.kill"):
            Group.of_run("r")

        assert list(place.iterdir()) == []

    def test_without_the_files_of_linux(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(cgroup, "OWN", str(tmp_path / "none"))

        with pytest.raises(Unavailable, match="none cannot be read: No such file"):
            Group.of_run("r")

    def pretend(self, monkeypatch: pytest.MonkeyPatch, folder: Path, own: str, mounts: str) -> None:
        for name, text in (("OWN", own), ("MOUNTS", mounts)):
            (folder / name).write_text(text, "ascii")
            monkeypatch.setattr(cgroup, name, str(folder / name))
