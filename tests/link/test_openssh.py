"""The system's ssh, which asks its questions itself, on the terminal of the command."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import COMMAND_DEADLINE_S, Project
from tests.hosts.sshd import SshServer
from tests.link.reached import QUICK

PASSPHRASE = "correct horse"
# The first terminal that the leader of a session opens is its own.
_ON_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'


class Terminal:
    """A command on a terminal of its own, as a person has it."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self.said = b""
        self._handle, self._slave = pty.openpty()
        env = {**os.environ, **project.env, "TERM": "xterm"}
        env.pop("SSH_AUTH_SOCK", None)
        self._process = subprocess.Popen(
            ["sh", "-c", _ON_TERMINAL, os.ttyname(self._slave), *project.command(*arguments)],
            cwd=project.path,
            env=env,
            start_new_session=True,
        )

    def read_until(self, pattern: bytes) -> None:
        end = time.monotonic() + COMMAND_DEADLINE_S
        while not re.search(pattern, self.said):
            assert time.monotonic() < end, self.said
            assert self._read(1.0) is not None, self.said

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def end(self) -> int:
        """The exit code, once everything that it says was read."""
        end = time.monotonic() + COMMAND_DEADLINE_S
        while self._read(1.0) is not None:
            assert time.monotonic() < end, self.said
        os.close(self._handle)
        return self._process.wait(timeout=COMMAND_DEADLINE_S)

    def _read(self, wait_s: float) -> bytes | None:
        """What came, nothing in that time, or None at the end."""
        ready, _, _ = select.select([self._handle], [], [], wait_s)
        try:
            piece = os.read(self._handle, 4096) if ready else b""
        except OSError:
            # Linux's way to say that the other side is closed.
            return None
        self.said += piece
        if self._slave >= 0 and piece:
            # The command has it now; its end is seen when nobody has it any more.
            os.close(self._slave)
            self._slave = -1
        return None if ready and not piece else piece


@pytest.fixture
def guarded(project: Project, trusted_ssh: SshServer) -> Project:
    """A project with a host whose key has a passphrase."""
    key = project.home / "guarded_key"
    config = trusted_ssh.config.read_text("utf-8")
    (found,) = re.findall(r"IdentityFile (.+)", config)
    plain = Path(found.strip().strip('"'))
    shutil.copy(plain, key)
    key.chmod(0o600)
    change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", PASSPHRASE, "-f", str(key)]
    subprocess.run(change, check=True, timeout=30)
    own = project.home / "ssh_config"
    own.write_text(config.replace(found, f'"{key}"'), "utf-8")
    root = project.home / "root"
    project.write(
        "hosts.yaml",
        f"hosts:\n  far: {{openssh: testhost, ssh_config: '{own}', root: '{root}'}}\n",
    )
    project.write("quick.yaml", QUICK)
    return project


@pytest.mark.parametrize("plain", [["--plain"], []], ids=["plain", "live"])
def test_ssh_may_ask_for_a_passphrase(guarded: Project, plain: list[str]) -> None:
    terminal = Terminal(guarded, "run", "quick.yaml", "--host", "far", *plain)
    terminal.read_until(rb"passphrase for key")
    terminal.type(PASSPHRASE + "\n")

    assert terminal.end() == 0, terminal.said
    assert b"reaching far" in terminal.said
    # Nothing was drawn over the question before it was answered.
    asked = terminal.said.split(b"passphrase for key")[1].split(b"\n")[0]
    assert b"\x1b[" not in asked


def test_ctrl_c_does_not_cut_the_link(guarded: Project) -> None:
    gate = guarded.home / "go"
    guarded.experiment(
        "experiment: wait\nkind: probe\ntimeout: 60s\nsteps:\n"
        f"  - {{id: wait, run: 'until [ -e {gate} ]; do sleep 0.1; done'}}\n",
        "wait.yaml",
    )
    terminal = Terminal(guarded, "run", "wait.yaml", "--host", "far", "--plain")
    terminal.read_until(rb"passphrase for key")
    terminal.type(PASSPHRASE + "\n")
    terminal.read_until(rb"wait: started")
    terminal.type("\x03")
    terminal.read_until(rb"Ctrl-C again")
    gate.touch()
    terminal.end()

    assert b"the link broke" not in terminal.said
