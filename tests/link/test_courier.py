"""A connection that is kept open for the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import AF_UNIX, socket, socketpair

import pytest

from orchestrator.link import courier, visits, welcome
from orchestrator.link.session import Session
from orchestrator.spec.hosts import Host
from tests.conftest import COMMAND_DEADLINE_S, Project
from tests.hosts.sshd import SshServer
from tests.link.reached import QUICK, local, over_ssh


def wait_for_courier(cache: Path, other_than: str) -> str:
    """The process id of a courier that waits, once it is another one."""
    end = time.monotonic() + COMMAND_DEADLINE_S
    while time.monotonic() < end:
        for path in cache.rglob("*.pid"):
            number = path.read_text("ascii").partition("\n")[0]
            if number not in ("", other_than) and path.with_suffix(".sock").exists():
                return number
        time.sleep(0.02)
    raise AssertionError(f"no courier came: {list(cache.rglob('*'))}")


def lending(cache: Path) -> Path:
    """The socket of a courier that has a connection to lend, once it has."""
    end = time.monotonic() + COMMAND_DEADLINE_S
    while time.monotonic() < end:
        for path in cache.rglob("*.sock"):
            return path
        time.sleep(0.02)
    raise AssertionError(f"no courier came: {list(cache.rglob('*'))}")


class TestKeptConnection:
    @pytest.fixture
    def host(
        self,
        tmp_path: Path,
        short_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        trusted_ssh: SshServer,
    ) -> Host:
        monkeypatch.setenv("XDG_CACHE_HOME", str(short_path / "cache"))
        return over_ssh(trusted_ssh, tmp_path, "ssh", keep_open="1m")

    @pytest.fixture
    def short_path(self) -> Iterator[Path]:
        """pytest's own temporary directories may be too deep for a socket."""
        with tempfile.TemporaryDirectory(prefix="orch") as folder:
            yield Path(folder)

    @pytest.mark.parametrize("place", ["cache", "a path too long for a socket/" * 4])
    def test_the_second_run_does_not_log_in(
        self, project: Project, trusted_ssh: SshServer, short_path: Path, place: str
    ) -> None:
        project.env["XDG_CACHE_HOME"] = str(short_path / place)
        project.env["TMPDIR"] = str(short_path)
        more = {"root": project.home / "root", "keep_open": "1m"}
        project.write("hosts.yaml", trusted_ssh.hosts_yaml("there", "ssh", **more))
        project.write("quick.yaml", QUICK)
        log = trusted_ssh.folder / "sshd.log"
        try:
            first = project.orch("run", "quick.yaml", "--host", "there")
            assert first.code == 0, first.text
            mode = lending(short_path).stat().st_mode
            logins = log.read_text("utf-8").count("Accepted publickey")
            second = project.orch("run", "quick.yaml", "--host", "there")
            lending(short_path)
            # Over another channel of the connection that the courier has.
            third = project.orch("run", "quick.yaml", "--host", "there")
            lending(short_path)
            listed = project.orch("ls", "--host", "there")
        finally:
            closed = project.orch("hosts", "close", "there")

        assert second.code == 0, second.text
        record = project.record()
        assert record["timings"]["connected_s"] < 1
        assert mode & 0o077 == 0
        assert third.code == 0, third.text
        assert listed.out.count("-quick-") == 3, listed.text
        assert log.read_text("utf-8").count("Accepted publickey") == logins
        assert "closed the connection" in closed.out

    def test_a_run_that_was_left_is_followed_without_a_login(
        self, project: Project, trusted_ssh: SshServer, short_path: Path
    ) -> None:
        project.env["XDG_CACHE_HOME"] = str(short_path)
        more = {"root": project.home / "root", "keep_open": "1m"}
        project.write("hosts.yaml", trusted_ssh.hosts_yaml("there", "ssh", **more))
        project.write("quick.yaml", QUICK)
        go = project.home / "go"
        waits = f"echo begun; until [ -e {go} ]; do sleep 0.05; done"
        project.write("long.yaml", QUICK.replace("echo a", waits).replace("quick", "long"))
        log = trusted_ssh.folder / "sshd.log"
        try:
            project.orch("run", "quick.yaml", "--host", "there")
            lending(short_path)
            with project.start("run", "long.yaml", "--host", "there", "--plain") as left:
                assert left.stdout is not None
                for line in left.stdout:
                    if "started" in line:
                        break
                left.kill()
            lending(short_path)
            logins = log.read_text("utf-8").count("Accepted publickey")
            go.touch()
            attached = project.orch("attach", "latest")
        finally:
            project.orch("hosts", "close", "there")

        assert attached.code == 0, attached.text
        assert log.read_text("utf-8").count("Accepted publickey") == logins

    def test_a_dead_courier_is_no_obstacle(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = courier.socket_path("there", host)
        path.parent.mkdir(mode=0o700, parents=True)
        path.touch()

        with Session("there", host, borrow=True) as session:
            assert not session.is_lent
            session.open("list")
            session.expect("welcome", 30)

    @pytest.mark.parametrize("hangs", [False, True])
    def test_a_question_goes_on_without_a_courier_that_lends_a_dead_connection(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, hangs: bool
    ) -> None:
        monkeypatch.setattr(welcome, "LENT_DEADLINE_S", 0.2)
        path = courier.socket_path("there", host)
        path.parent.mkdir(mode=0o700, parents=True)
        lent: list[socket] = []
        with socket(AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(10)

            def lend() -> None:
                with suppress(TimeoutError):
                    lent.append(listener.accept()[0])
                    greet(lent[0])

            def greet(caller: socket) -> None:
                caller.sendall(b"\x01")
                if not hangs:
                    caller.close()

            lender = threading.Thread(target=lend, daemon=True)
            lender.start()
            found = visits.runs("there", host)
            lender.join(20)

        assert found == []
        assert len(lent) == 1, "nobody asked the courier"
        lent[0].close()

    def test_a_question_does_not_use_up_a_login_that_somebody_may_have_to_confirm(
        self, host: Host
    ) -> None:
        kept = host.model_copy(update={"ssh": None, "openssh": "testhost"})
        path = courier.socket_path("there", kept)
        path.parent.mkdir(mode=0o700, parents=True)
        with socket(AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.setblocking(False)

            found = visits.runs("there", kept)

            with pytest.raises(BlockingIOError):
                listener.accept()
        assert found == []

    def test_a_killed_courier_gets_a_successor(
        self, project: Project, short_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project.env["XDG_CACHE_HOME"] = str(short_path)
        project.write("hosts.yaml", "hosts:\n  near: {local: true, keep_open: 1m}\n")
        project.write("quick.yaml", QUICK)
        project.orch("run", "quick.yaml", "--host", "near")
        killed = wait_for_courier(short_path, "")
        os.kill(int(killed), signal.SIGKILL)
        try:
            after = project.orch("run", "quick.yaml", "--host", "near")
            assert after.code == 0, after.text
            wait_for_courier(short_path, killed)
        finally:
            closed = project.orch("hosts", "close", "near")

        assert "closed the connection" in closed.out

    @pytest.mark.parametrize("change", ["stop it", "edit its entry", "remove its entry"])
    def test_a_courier_is_closed_whatever_became_of_it_or_of_its_entry(
        self, project: Project, short_path: Path, change: str
    ) -> None:
        project.env["XDG_CACHE_HOME"] = str(short_path)
        entry = "hosts:\n  near: {local: true, keep_open: 1m}\n"
        project.write("hosts.yaml", entry)
        project.write("quick.yaml", QUICK)
        project.orch("run", "quick.yaml", "--host", "near")
        number = int(wait_for_courier(short_path, ""))
        lending(short_path)
        if change == "stop it":
            os.kill(number, signal.SIGSTOP)
        elif change == "edit its entry":
            project.write("hosts.yaml", entry.replace("1m", "2m"))
        else:
            project.write("hosts.yaml", entry.replace("near", "far"))

        closed = project.orch("hosts", "close", "near")
        again = project.orch("hosts", "close", "near")

        assert "closed the connection to near" in closed.out, closed.text
        assert closed.code == 0
        assert list(short_path.rglob("*.*")) == []
        state = Path(f"/proc/{number}/stat")
        assert not state.exists() or state.read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
        assert again.code == (2 if change == "remove its entry" else 0)

    def test_the_number_of_a_killed_courier_is_not_another_process(
        self, host: Host, short_path: Path
    ) -> None:
        path = courier.socket_path("there", host).with_suffix(".pid")
        path.parent.mkdir(mode=0o700, parents=True)
        with subprocess.Popen(["sleep", "60"]) as bystander:
            path.write_text(f"{bystander.pid}\nthere\n", "ascii")

            dismissed = courier.dismiss("there")
            is_alive = bystander.poll() is None
            bystander.kill()

        assert not dismissed
        assert is_alive

    def test_a_folder_that_is_open_to_others_is_not_used(self, host: Host) -> None:
        path = courier.socket_path("there", host)
        path.parent.mkdir(mode=0o755, parents=True)

        assert courier.borrow("there", host) is None

    def test_without_keep_open_there_is_no_courier(self, tmp_path: Path) -> None:
        assert courier.borrow("here", local(tmp_path)) is None


def test_a_courier_that_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "STALL_S", 0.2)
    near, far = socketpair()
    with far:
        pipe = courier.CourierPipe(near)

        with pytest.raises(TimeoutError):
            pipe.write(bytes(10_000_000))

        far.sendall(b"late")
        assert pipe.read(4) == b"late"
        pipe.close()
