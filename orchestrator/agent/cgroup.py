"""A control group (version 2) for each step: one word to the kernel ends everything in it at once.

The child subreaper and the mark in the environment hold for as long as the supervisor lives. What
cleared its environment and outlives a killed supervisor can be found by its group alone. A group is
made below the agent's own, where that may be done: as root, in a container that may write there, or
where systemd delegated the subtree.
"""

from __future__ import annotations

import os
import re
import tempfile
import time

OWN = "/proc/self/cgroup"
MOUNTS = "/proc/self/mountinfo"
_PREFIX = "orch-"
_REMOVE_DEADLINE_S = 1.0
_LOOK_S = 0.01


class Unavailable(Exception):
    """No group can be made here; the text says why."""


class Group:
    """A control group of ours, by its directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def of_run(cls, run_id: str) -> Group:
        """A group for a run, below our own, that a process was seen to enter.

        Raises:
            Unavailable: this kernel, or who owns our group, does not let us.
        """
        own = own_folder()
        try:
            # A name of its own: what a killed supervisor left must not stand in the way.
            group = cls(tempfile.mkdtemp(prefix=f"{_PREFIX}{run_id}-", dir=own))
            try:
                group._try_out()
            except BaseException:
                group.remove()
                raise
        except OSError as error:
            raise Unavailable(f"no group can be made in {own}: {error.strerror}") from error
        return group

    @classmethod
    def at(cls, path: str) -> Group | None:
        """The group that a journal tells of, while it is there."""
        is_ours = os.path.basename(path).startswith(_PREFIX)
        is_there = os.path.exists(os.path.join(path, "cgroup.kill"))
        return cls(path) if is_ours and is_there else None

    def child(self, name: str) -> Group:
        """A new group inside this one.

        Raises:
            OSError: the kernel allows no more groups.
        """
        group = Group(os.path.join(self.path, name))
        os.mkdir(group.path)
        return group

    @property
    def entrance(self) -> str:
        """The file into which a process writes `0` to enter."""
        return os.path.join(self.path, "cgroup.procs")

    def holds(self, pid: int) -> bool:
        """Whether a process is in it, or below; also one that has ended and is not reaped yet."""
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
                inside = _path_in(file.read())
        except OSError:
            return False
        # What stands before our part of the path depends on the mount.
        ours = self.path[self.path.rindex(f"/{_PREFIX}") :]
        return f"{ours}/" in f"{inside}/"

    def pids(self) -> list[int]:
        """The living processes in it and below."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            try:
                with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                    found.extend(int(line) for line in file)
            except OSError:
                # It was removed meanwhile, and only an empty one can be.
                continue
        return found

    def kill(self) -> None:
        """KILL everything in it and below, also what is being forked just now.

        Raises:
            OSError: the kernel refuses; nothing was killed.
        """
        with open(os.path.join(self.path, "cgroup.kill"), "w", encoding="ascii") as file:
            file.write("1")

    def remove(self) -> bool:
        """Remove it and what a step made below; False when somebody is in it still."""
        end = time.monotonic() + _REMOVE_DEADLINE_S
        while not _removed(self.path):
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_S)
        return True

    def _try_out(self) -> None:
        """Let a process enter: whether that is allowed, no file mode tells."""
        if not os.path.exists(os.path.join(self.path, "cgroup.kill")):
            raise Unavailable("this kernel has no cgroup.kill (it came with Linux 5.14)")
        child = os.fork()
        if child == 0:
            try:
                enter(self.entrance)
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            raise Unavailable(f"{self.entrance} lets no process of ours in")


def enter(entrance: str) -> None:
    """Move this process into a group.

    Raises:
        OSError: the kernel refuses.
    """
    handle = os.open(entrance, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, b"0")
    finally:
        os.close(handle)


def own_folder() -> str:
    """The directory of the group that this process is in.

    Raises:
        Unavailable: there is none that we can see.
    """
    inside = _path_in(_text(OWN))
    if not inside or "/.." in inside:
        raise Unavailable("this process is in no control group of version 2 that can be seen here")
    for line in _text(MOUNTS).splitlines():
        place, _, rest = line.partition(" - ")
        if not rest.startswith("cgroup2 "):
            continue
        root, point = (_unescaped(field) for field in place.split(" ")[3:5])
        if root == "/" or f"{inside}/".startswith(f"{root}/"):
            below = inside if root == "/" else inside[len(root) :]
            return point + below.rstrip("/")
    raise Unavailable("no file system of control groups (version 2) is mounted here")


def _path_in(text: str) -> str:
    """The group of version 2 in the words of /proc/PID/cgroup; empty when there is none."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), "")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def _removed(top: str) -> bool:
    try:
        for folder, _, _ in os.walk(top, topdown=False):
            os.rmdir(folder)
    except OSError:
        # Busy: who was killed there has not gone yet.
        return not os.path.exists(top)
    return not os.path.exists(top)
