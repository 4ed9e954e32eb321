"""The host's half of `orch doctor`: what here would get in the way of a run."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Mapping

from orchestrator.agent import environment, jobenv, journal, processes
from orchestrator.agent.cgroup import Group, Unavailable
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.layout import Root
from orchestrator.agent.offered import offered, whose
from orchestrator.agent.spawn import SpawnError, spawn

_DEADLINE_S = 10.0
_LOW_DISK_BYTES = 5 << 30
LINGER = "/var/lib/systemd/linger"

OK, WARNING, ERROR = "ok", "warning", "error"


def checkup(link: Conversation, hello: Mapping[str, Any]) -> None:
    """Run every check; each says what it found, and what to do when that is bad."""
    root = Root.at(hello["root"])
    env = {**jobenv.inherited(), **hello.get("env", {})}

    def gpus(root: Root) -> dict[str, str]:
        return _gpus(env)

    checks: tuple[Callable[[Root], dict[str, str]], ...] = (
        _python,
        _bash,
        _root_disk,
        _root_file_system,
        _detaching,
        _subreaper,
        gpus,
    )
    found = []
    for check in checks:
        begun = time.monotonic()
        try:
            finding = check(root)
        except Exception as error:  # noqa: BLE001 - a check that fails is itself a finding
            finding = _finding(check.__name__.strip("_"), ERROR, f"the check failed: {error!r}")
        finding["seconds"] = f"{time.monotonic() - begun:.2f}"
        found.append(finding)
    link.tell("checkup", findings=found, at=journal.now())


def _finding(name: str, level: str, text: str, fix: str = "") -> dict[str, str]:
    return {"name": name, "level": level, "text": text, "fix": fix}


def _python(root: Root) -> dict[str, str]:
    version = sys.version.split()[0]
    return _finding("python", OK, f"the agent runs on {sys.executable} ({version})")


def _bash(root: Root) -> dict[str, str]:
    path = shutil.which("bash")
    if path is None:
        fix = "install bash, or give every `run:` as a list of arguments"
        return _finding("bash", ERROR, "there is no bash on PATH", fix)
    return _finding("bash", OK, path)


def _root_disk(root: Root) -> dict[str, str]:
    free = shutil.disk_usage(root.path).free
    text = f"{free / 1e9:.1f} GB free under {root.path}"
    if free < _LOW_DISK_BYTES:
        return _finding("disk", WARNING, text, "`orch gc --host NAME`, or set `root:` elsewhere")
    return _finding("disk", OK, text)


def _root_file_system(root: Root) -> dict[str, str]:
    """JIT caches on a network file system mix up the builds of several hosts."""
    kind = _file_system(root.path)
    if kind.startswith(("nfs", "lustre", "gpfs", "beegfs", "cifs", "fuse.sshfs")):
        fix = "set `root:` of the host to a local disk"
        return _finding("file system", WARNING, f"{root.path} is on {kind}", fix)
    return _finding("file system", OK, f"{root.path} is on {kind or 'an unknown file system'}")


def _file_system(path: str) -> str:
    try:
        with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    real = os.path.realpath(path)
    best = ("", "")
    for point, kind in mounts:
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def _detaching(root: Root) -> dict[str, str]:
    """logind can kill what a user leaves running when the last session ends."""
    done = (
        subprocess.run(
            [
                "busctl",
                "get-property",
                "org.freedesktop.login1",
                "/org/freedesktop/login1",
                "org.freedesktop.login1.Manager",
                "KillUserProcesses",
            ],
            capture_output=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        if shutil.which("busctl")
        else None
    )
    if done is None or done.returncode != 0:
        return _finding("detaching", OK, "no logind here that would end detached runs")
    if b"true" not in done.stdout:
        return _finding("detaching", OK, "logind leaves detached processes alone")
    if os.path.exists(os.path.join(LINGER, pwd.getpwuid(os.getuid()).pw_name)):
        return _finding("detaching", OK, "logind keeps the processes of this user (linger)")
    return _finding(
        "detaching",
        ERROR,
        "logind kills your processes when you log out",
        "loginctl enable-linger",
    )


def _subreaper(root: Root) -> dict[str, str]:
    """Start a process that escapes its session, and see whether it can be found again."""
    if not processes.become_subreaper():
        return _finding("process trees", WARNING, "this system has no child subreaper")
    with tempfile.TemporaryFile() as output:
        script = "setsid sleep 60 & exit 0"
        mark = f"doctor/{os.getpid()}"
        env = {**os.environ, processes.MARK: mark}
        try:
            leader = spawn(["bash", "-c", script], env, root.path, output.fileno())
        except SpawnError as error:
            return _finding("process trees", ERROR, f"no process could be started: {error}")
    os.waitpid(leader, 0)
    found = processes.members(mark)
    left = processes.kill_all(mark, lambda pid, status: None, _DEADLINE_S)
    if left:
        return _finding("process trees", ERROR, f"could not be killed: {left}")
    if not found:
        return _finding("process trees", ERROR, "a process that left its session was not found")
    text = f"a process that left its session was found and killed; {_control_groups()}"
    return _finding("process trees", OK, text)


def _control_groups() -> str:
    try:
        Group.of_run(f"doctor-{os.getpid()}").remove()
    except Unavailable as reason:
        return f"no control groups: {reason}"
    return "each step gets a control group"


def _gpus(env: Mapping[str, str]) -> dict[str, str]:
    """The GPUs that a step which finds `env` can be given."""
    begun = time.monotonic()
    listed = environment.visible_gpus(_DEADLINE_S)
    took = time.monotonic() - begun
    gpus = offered(listed, env)
    if not gpus:
        text = f"{whose(env)} shows no GPU; steps with `gpus:` cannot run here"
        return _finding("gpus", WARNING, text)
    names = ", ".join(sorted({str(gpu["name"]) for gpu in gpus}))
    busy = [str(gpu["index"]) for gpu in gpus if gpu["foreign_pids"]]
    blind = [str(gpu["index"]) for gpu in gpus if gpu["foreign_pids"] is None]
    text = f"{len(gpus)} GPUs ({names}), listed in {took:.1f} s"
    if len(gpus) < len(listed):
        text += f", of {len(listed)}: {whose(env)} leaves no more"
    if busy:
        return _finding("gpus", WARNING, f"{text}; others use GPU {', '.join(busy)}")
    if blind:
        text += f"; nobody can tell who uses GPU {', '.join(blind)}"
        fix = "a step gets one only while its memory is as good as empty; look from the host itself"
        return _finding("gpus", WARNING, text, fix)
    return _finding("gpus", OK, text)
