"""The constant that starts the receiver: through every shell, and when things go wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.agent.frames import GREETING
from orchestrator.link import agentzip, bootstrap

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "fish", "csh") if shutil.which(shell)]


def start(argv: list[str], opening: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, input=opening, capture_output=True, timeout=60, check=False)


def opening(
    root: Path, interpreter: str | None = sys.executable, *, agent: bytes | None = None
) -> bytes:
    body = agentzip.build() if agent is None else agent
    name = agentzip.name()
    return bootstrap.opening(
        body, name=name, root=str(root), interpreter=interpreter, files=agentzip.files()
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_survives_the_login_shell(tmp_path: Path, shell: str) -> None:
    done = start([shell, "-c", bootstrap.COMMAND], opening(tmp_path / "root"))

    assert done.stdout.startswith(GREETING), done.stderr


def test_the_argument_list_needs_no_quoting(tmp_path: Path) -> None:
    done = start(list(bootstrap.ARGV), opening(tmp_path / "a root with 'quotes'"))

    assert done.stdout.startswith(GREETING), done.stderr


def test_python_alone_is_enough(tmp_path: Path) -> None:
    done = start([sys.executable, "-c", bootstrap.PYTHON_CODE], opening(tmp_path / "r", None))

    assert done.stdout.startswith(GREETING), done.stderr


@pytest.mark.parametrize(
    "interpreter", ["/nowhere/python3", "python3; touch owned", "$(touch owned)"]
)
def test_a_value_is_never_shell_code(tmp_path: Path, interpreter: str) -> None:
    done = subprocess.run(
        list(bootstrap.ARGV),
        input=opening(tmp_path / "root", interpreter),
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode in (126, 127)
    assert not (tmp_path / "owned").exists()


def test_a_home_directory_may_stand_in_front_of_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my python").symlink_to(sys.executable)
    monkeypatch.setenv("HOME", str(tmp_path))

    done = start(list(bootstrap.ARGV), opening(tmp_path / "root", "~/my python"))

    assert done.stdout.startswith(GREETING), done.stderr


def test_a_damaged_agent_is_not_run(tmp_path: Path) -> None:
    whole = opening(tmp_path / "root")
    damaged = whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:]

    done = start(list(bootstrap.ARGV), damaged)

    assert done.returncode == 99
    assert b"damaged" in done.stderr


def test_an_agent_that_is_there_is_not_needed_again(tmp_path: Path) -> None:
    start(list(bootstrap.ARGV), opening(tmp_path / "root"))

    done = start(list(bootstrap.ARGV), opening(tmp_path / "root", agent=b""))

    assert done.stdout.startswith(GREETING), done.stderr


def test_an_agent_that_is_there_no_more_is_missed(tmp_path: Path) -> None:
    done = start(list(bootstrap.ARGV), opening(tmp_path / "root", agent=b""))

    assert done.returncode == 95
    assert b"the agent is not here any more" in done.stderr
    assert not (tmp_path / "root").exists()


def test_an_agent_that_has_lost_a_file_is_missed_and_put_back(tmp_path: Path) -> None:
    root = tmp_path / "root"
    start(list(bootstrap.ARGV), opening(root))
    lost = root / "agents" / agentzip.name() / "orchestrator" / "agent" / "session.py"
    lost.unlink()

    missed = start(list(bootstrap.ARGV), opening(root, agent=b""))
    sent = start(list(bootstrap.ARGV), opening(root))

    assert missed.returncode == bootstrap.AGENT_GONE
    assert sent.stdout.startswith(GREETING), sent.stderr
    assert lost.exists()
    assert [path.name for path in (root / "agents").iterdir()] == [agentzip.name()]


@pytest.mark.parametrize("root", ["/proc/x", "a file/root"])
def test_a_root_that_cannot_be_made_is_told_in_one_line(tmp_path: Path, root: str) -> None:
    (tmp_path / "a file").write_text("in the way", "ascii")

    done = start(list(bootstrap.ARGV), opening(tmp_path / root))

    assert done.returncode == bootstrap.NO_ROOT
    (said,) = done.stderr.decode().splitlines()
    assert said.startswith(f"orch: {tmp_path / root}"), said
    assert said.endswith((": No such file or directory", ": Not a directory"))


def test_a_cut_stream_says_so(tmp_path: Path) -> None:
    done = start(list(bootstrap.ARGV), opening(tmp_path / "root")[:5000])

    assert done.returncode == 98


OLD = Path.home() / ".pyenv" / "versions" / "3.7.16" / "bin" / "python3"


@pytest.mark.skipif(not OLD.exists(), reason="no Python 3.7 on this machine")
def test_an_old_python_says_what_it_is(tmp_path: Path) -> None:
    done = start(list(bootstrap.ARGV), opening(tmp_path / "root", str(OLD)))

    assert done.returncode == 97
    assert b"needs Python 3.8, this is 3.7" in done.stderr


def test_the_zip_is_the_same_bytes_every_time() -> None:
    first = agentzip.build()
    agentzip.build.cache_clear()

    assert agentzip.build() == first
    assert len(first) < 400_000
