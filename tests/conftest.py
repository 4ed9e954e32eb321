"""A scratch project, a home of its own, and the `orch` command run in them as a user runs it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store.rundir import run_dirs
from tests.hosts import sshd

ROOT = Path(__file__).resolve().parent.parent
# Longer than any command here takes on a busy machine; a hang must fail, not stall.
COMMAND_DEADLINE_S = 120.0

# What a shell starts in the background ignores Ctrl-C, and so would all that is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def git(folder: Path, *arguments: str, **options: Any) -> str:
    """Run git in a folder; returns what it prints."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        **options,
    )
    return done.stdout.strip()


def until_said(controller: subprocess.Popen[str], words: str) -> str:
    """What a command says up to these words; `communicate` has what it says after them."""
    assert controller.stdout is not None
    handle = controller.stdout.fileno()
    end = time.monotonic() + COMMAND_DEADLINE_S
    said = b""
    while words.encode() not in said:
        ready, _, _ = select.select([handle], [], [], max(end - time.monotonic(), 0))
        assert ready, f"waited in vain for {words!r}: {said!r}"
        piece = os.read(handle, 1 << 16)
        assert piece, f"ended without {words!r}: {said!r}"
        said += piece
    return said.decode()


@dataclass
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Project:
    """A git working copy with a home directory beside it."""

    path: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text, "utf-8")
        return path

    def git(self, *arguments: str) -> str:
        return git(self.path, *arguments, env={**os.environ, **self.env})

    def commit(self, message: str = "work") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from orchestrator.cli import main; main()", *arguments]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start `orch` without waiting for it."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.path,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def orch(self, *arguments: str, **env: str) -> Finished:
        """Run `orch` to its end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            env={**os.environ, **self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    # -- runs

    @property
    def runs(self) -> list[Path]:
        """Oldest first, also where two began within the same second."""
        return [run.path for run in run_dirs(self.path / "artifacts")]

    @property
    def last_run(self) -> Path:
        return self.runs[-1]

    def record(self, run: Path | None = None) -> dict[str, Any]:
        text = ((run or self.last_run) / "run.json").read_text("utf-8")
        return dict(json.loads(text))

    def events(self, run: Path | None = None) -> list[dict[str, Any]]:
        path = (run or self.last_run) / "evidence" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def ended(self, job: str, run: Path | None = None) -> dict[str, Any]:
        """The `step_ended` event of a job."""
        return next(e for e in self.events(run) if e["event"] == "step_ended" and e["id"] == job)

    def log(self, job: str, run: Path | None = None) -> str:
        folder = self.ended(job, run)["folder"]
        path = (run or self.last_run) / "evidence" / "steps" / folder / "log"
        return path.read_text("utf-8", "replace")

    def experiment(self, text: str, name: str = "exp.yaml") -> str:
        self.write(name, text)
        return name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(
        "[user]\n name = A Tester\n email = tester@example.com\n"
        '[init]\n defaultBranch = main\n[protocol "file"]\n allow = always\n',
        "utf-8",
    )
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty working copy in a directory with a blank and a non-ASCII letter."""
    folder = tmp_path / "my pröject"
    folder.mkdir()
    env = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PYTHONPATH": str(ROOT),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for name, value in env.items():
        if name != "PYTHONPATH":
            monkeypatch.setenv(name, value)
    made = Project(folder, home, env)
    made.git("init", "-q")
    return made


class Molds:
    """Projects as they were made once, for every test that starts from such a one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pour(self, name: str, project: Project, make: Callable[[Project], object]) -> None:
        """Bring a project into the state that `make` leaves, which runs the first time only."""
        mold = self._folder / name
        if mold.exists():
            shutil.copytree(mold, project.path, symlinks=True, dirs_exist_ok=True)
        else:
            make(project)
            shutil.copytree(project.path, mold, symlinks=True)


@pytest.fixture(scope="session")
def molds(tmp_path_factory: pytest.TempPathFactory) -> Molds:
    return Molds(tmp_path_factory.mktemp("molds"))


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.SshServer]:
    """A real sshd for the whole session, with a banner; skipped where there is none."""
    if sshd.find_sshd() is None:
        pytest.skip("no sshd on this machine: install openssh-server")
    folder = tmp_path_factory.mktemp("sshd")
    with sshd.running(folder, banner="*** authorised use only ***\n") as server:
        yield server


@pytest.fixture
def trusted_ssh(ssh_server: sshd.SshServer) -> Iterator[sshd.SshServer]:
    """The server with its key in known_hosts, whatever a test does to that file."""
    ssh_server.trust()
    yield ssh_server
    ssh_server.trust()
