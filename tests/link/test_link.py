"""The session over real carriers: noise, refusals, silence, dropped and slow links."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import HostKeyChanged, HostKeyUnknown, Unreachable
from orchestrator.link import courier, visits
from orchestrator.link.session import Refused, Session
from orchestrator.report.teller import choose, closing
from orchestrator.run import Options, run
from orchestrator.spec.hosts import Host
from tests.conftest import COMMAND_DEADLINE_S, Project
from tests.hosts import slowlink
from tests.hosts.sshd import SshServer


def local(tmp_path: Path) -> Host:
    return Host(local=True, root=str(tmp_path / "root"))


def via(tmp_path: Path, script: str) -> Host:
    return Host(via=("bash", "-c", script, "--"), root=str(tmp_path / "root"))


def over_ssh(server: SshServer, tmp_path: Path, carrier: str, **more: object) -> Host:
    return Host(
        **{carrier: "testhost"}, ssh_config=str(server.config), root=str(tmp_path / "root"), **more
    )


class TestNoise:
    @pytest.mark.parametrize(
        "noise",
        [
            "echo banner",
            "printf 'no newline'",
            "head -c 100000 /dev/urandom",
            "printf '\\0orch-agen'",
        ],
    )
    def test_what_start_up_files_print_does_not_matter(self, tmp_path: Path, noise: str) -> None:
        host = via(tmp_path, f'{noise}; exec "$@"')

        assert visits.runs("noisy", host) == []

    def test_doctor_shows_the_noise(self, tmp_path: Path) -> None:
        found = visits.checkup("noisy", via(tmp_path, 'echo "hello, user"; exec "$@"'))

        assert found.noise == b"hello, user\n"


class TestWhatGoesWrong:
    def test_a_carrier_that_is_not_there(self, tmp_path: Path) -> None:
        host = Host(via=("no-such-program", "--"), root=str(tmp_path))

        with pytest.raises(Unreachable, match="cannot start `no-such-program`"):
            visits.runs("gone", host)

    def test_a_host_without_that_interpreter(self, tmp_path: Path) -> None:
        host = Host(via=("env",), root=str(tmp_path), agent_python="/nowhere/python3")

        with pytest.raises(Unreachable, match="no such interpreter"):
            visits.runs("bare", host)

    def test_a_carrier_that_says_why_it_failed(self, tmp_path: Path) -> None:
        host = via(tmp_path, "echo 'pod not found' >&2; exit 3")

        with pytest.raises(Unreachable, match=r"exit code 3; pod not found"):
            visits.runs("pod", host)

    def test_an_unknown_run_is_refused_by_the_host(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match="names no single run"):
            visits.status("here", local(tmp_path), "20260101")

    def test_a_run_that_is_not_there_names_the_way_to_those_that_are(self, tmp_path: Path) -> None:
        with pytest.raises(Refused) as caught:
            visits.status("here", local(tmp_path), "20260101-000000-none-0000")

        assert caught.value.fix == "`orch ls --host here` lists the runs there"

    def test_a_run_id_cannot_leave_the_root(self, tmp_path: Path) -> None:
        with pytest.raises(Exception, match="not a run id"):
            visits.status("here", local(tmp_path), "../../etc")

    def test_nobody_listens_on_the_port(self, tmp_path: Path) -> None:
        host = Host(ssh="127.0.0.1:1", root=str(tmp_path), connect_timeout="3s")

        with pytest.raises(Unreachable, match="no connection to `gone`"):
            visits.runs("gone", host)


@pytest.mark.parametrize("carrier", ["ssh", "openssh"])
class TestHostKeys:
    def test_a_trusted_key_passes(
        self, tmp_path: Path, trusted_ssh: SshServer, carrier: str
    ) -> None:
        assert visits.runs("there", over_ssh(trusted_ssh, tmp_path, carrier)) == []

    def test_an_unknown_key_is_refused(
        self, tmp_path: Path, trusted_ssh: SshServer, carrier: str
    ) -> None:
        trusted_ssh.distrust()

        with pytest.raises(HostKeyUnknown, match=r"SHA256:.*orch hosts trust there"):
            visits.runs("there", over_ssh(trusted_ssh, tmp_path, carrier))

    def test_a_changed_key_is_refused_with_file_and_line(
        self, tmp_path: Path, trusted_ssh: SshServer, carrier: str
    ) -> None:
        trusted_ssh.trust_another_key()

        with pytest.raises(HostKeyChanged) as caught:
            visits.runs("there", over_ssh(trusted_ssh, tmp_path, carrier))

        assert f"{trusted_ssh.known_hosts}:2" in str(caught.value)

    def test_trusting_the_key_makes_it_pass(
        self, project: Project, trusted_ssh: SshServer, carrier: str
    ) -> None:
        root = project.home / "root"
        project.write("hosts.yaml", trusted_ssh.hosts_yaml("there", carrier, root=root))
        trusted_ssh.distrust()

        refused = project.orch("doctor", "there")
        fingerprint = refused.err.split("SHA256:")[1].split(";")[0]
        wrong = project.orch("hosts", "trust", "there", "--fingerprint", "SHA256:wrong")
        nobody = project.orch("hosts", "trust", "there")
        trusted = project.orch("hosts", "trust", "there", "--fingerprint", f"SHA256:{fingerprint}")

        assert refused.code == 5
        assert wrong.code == nobody.code == 2
        assert trusted.code == 0, trusted.text
        assert project.orch("doctor", "there").code == 0


QUICK = """
experiment: quick
kind: probe
timeout: 30s
steps:
  - {id: a, run: echo a}
"""

WAITING = """
experiment: waiting
kind: probe
timeout: 60s
env: {GATE: "<gate>"}
steps:
  - id: wait
    run: |
      echo begun
      while [ ! -e "$GATE" ]; do sleep 0.05; done
      head -c 3000000 /dev/urandom > "$ORCH_OUT/big.bin"
"""


def wait_for(path: Path) -> None:
    end = time.monotonic() + COMMAND_DEADLINE_S
    while not path.exists():
        assert time.monotonic() < end, f"waited in vain for {path}"
        time.sleep(0.02)


class TestSlowAndBrokenLinks:
    def test_a_cut_link_is_tried_again_until_it_holds(
        self, project: Project, trusted_ssh: SshServer
    ) -> None:
        gate = project.home / "go"
        project.write("waiting.yaml", WAITING.replace("<gate>", str(gate)))
        with slowlink.running(trusted_ssh.port, round_trip_s=0.02, bits_per_s=20e6) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "waiting.yaml", "--host", "far")
            wait_for_begin(project)
            link.cut()
            gate.touch()
            time.sleep(1)
            link.mend()
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 0, out + err
        assert "the link broke" in out
        assert project.orch("verify", "latest").code == 0

    def test_a_link_that_stays_down_ends_with_5_and_says_how_to_go_on(
        self, project: Project, trusted_ssh: SshServer
    ) -> None:
        gate = project.home / "go"
        project.write("waiting.yaml", WAITING.replace("<gate>", str(gate)))
        with slowlink.running(trusted_ssh.port, round_trip_s=0.0, bits_per_s=1e9) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "waiting.yaml", "--host", "far", "--patience", "2s")
            wait_for_begin(project)
            link.cut()
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)
            link.mend()
            gate.touch()
            attached = project.orch("attach", "latest")

        assert controller.returncode == 5, out + err
        assert f"orch attach {project.last_run.name}" in err
        assert attached.code == 0, attached.text

    def test_a_bundle_that_was_cut_is_resumed_not_sent_again(
        self, project: Project, trusted_ssh: SshServer
    ) -> None:
        gate = project.home / "go"
        project.write("waiting.yaml", WAITING.replace("<gate>", str(gate)))
        with slowlink.running(trusted_ssh.port, round_trip_s=0.01, bits_per_s=8e6) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "waiting.yaml", "--host", "far")
            wait_for_begin(project)
            gate.touch()
            part = project.last_run / "bundle.zip.part"
            wait_for(part)
            end = time.monotonic() + COMMAND_DEADLINE_S
            while part.stat().st_size < 1_000_000:
                assert time.monotonic() < end
                time.sleep(0.02)
            carried = link.carried_bytes
            link.cut()
            link.mend()
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 0, out + err
        # The second connection carried what was missing, the agent and little else.
        assert link.carried_bytes - carried < 2_900_000

    def test_a_push_that_was_cut_ran_nothing_and_is_not_sent_twice(
        self, project: Project, trusted_ssh: SshServer
    ) -> None:
        project.write("quick.yaml", QUICK)
        for number in range(80):
            project.write(f"{number:02}.bin", os.urandom(100_000))
        with slowlink.running(trusted_ssh.port, round_trip_s=0.01, bits_per_s=8e6) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "quick.yaml", "--host", "far", "--patience", "20s")
            end = time.monotonic() + COMMAND_DEADLINE_S
            while link.carried_bytes < 1_500_000:
                assert time.monotonic() < end
                time.sleep(0.01)
            link.cut()
            link.mend()
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)
            runs_after_cut = project.runs
            again = project.orch("run", "quick.yaml", "--host", "far")

        assert controller.returncode == 5, out + err
        assert "nothing ran" in err
        assert "the upload was cut (the connection ended" in out
        assert "nothing runs there yet" in out
        assert "the run goes on" not in out
        assert runs_after_cut == []
        assert again.code == 0, again.text
        assert project.record()["timings"]["uploaded_bytes"] < 7_500_000


class TestWhatNeverStarted:
    """It leaves nothing that `orch ls` would show for ever."""

    @pytest.mark.parametrize("files", [30, 80], ids=["all on its way", "not all on its way"])
    def test_ctrl_c_in_the_upload(
        self, project: Project, trusted_ssh: SshServer, files: int
    ) -> None:
        project.write("quick.yaml", QUICK)
        for number in range(files):
            project.write(f"{number:02}.bin", os.urandom(100_000))
        with slowlink.running(trusted_ssh.port, round_trip_s=0.01, bits_per_s=8e6) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "quick.yaml", "--host", "far")
            end = time.monotonic() + COMMAND_DEADLINE_S
            while link.carried_bytes < 1_500_000:
                assert time.monotonic() < end
                time.sleep(0.01)
            controller.send_signal(signal.SIGINT)
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)
            # The change of mind may come behind the last byte, and the host be quicker.
            has_begun = files == 30 and "may have begun" in out
            attached = project.orch("attach", project.last_run.name) if has_begun else None

        assert controller.returncode == 130, out + err
        assert "Traceback" not in err
        if attached is not None:
            assert attached.code == 0, attached.text
            return
        assert "nothing was started; the next run sends what is missing" in out
        assert project.runs == []
        assert project.git("for-each-ref", "refs/orch/") == ""

    @pytest.mark.parametrize("carrier", ["ssh", "openssh"])
    def test_an_unknown_key(self, project: Project, trusted_ssh: SshServer, carrier: str) -> None:
        project.write("quick.yaml", QUICK)
        root = project.home / ".orch"
        project.write("hosts.yaml", trusted_ssh.hosts_yaml("there", carrier, root=root))
        trusted_ssh.distrust()

        done = project.orch("run", "quick.yaml", "--host", "there")

        assert done.code == 5, done.text
        assert project.runs == []

    def test_an_agent_that_does_not_start(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write(
            "hosts.yaml", "hosts:\n  pod: {via: [bash, -c, 'echo no such pod >&2; exit 3']}\n"
        )

        done = project.orch("run", "quick.yaml", "--host", "pod")

        assert done.code == 5, done.text
        assert "the agent did not start" in done.err
        assert project.runs == []

    def test_a_store_that_is_in_the_way_is_told_with_its_host(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write("home of there/blobs", "not a directory")
        root = project.path / "home of there"
        project.write("hosts.yaml", f"hosts:\n  there: {{local: true, root: '{root}'}}\n")

        done = project.orch("run", "quick.yaml", "--host", "there")

        assert done.code == 5, done.text
        assert f"`there` cannot do what it was asked: File exists: {root}/blobs" in done.err
        assert "orch doctor there" in done.err
        assert project.runs == []

    def test_what_a_host_says_is_no_command_to_the_terminal(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        says = r"printf '\033]0;mine\007\033[31mred\r' >&2; exit 3"
        project.write(
            "hosts.yaml", f'hosts:\n  pod: {{via: [bash, -c, "{says}"]}}\n'.replace("\\", "\\\\")
        )

        done = project.orch("run", "quick.yaml", "--host", "pod")

        assert done.code == 5, done.text
        assert "red" in done.err
        assert not set("\x1b\x07\r") & set(done.err)

    def test_ctrl_c_before_the_upload(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write(
            "hosts.yaml", "hosts:\n  far: {via: [bash, -c, 'sleep 3; exec \"$@\"', --]}\n"
        )
        blocked = project.home / "blocked"
        os.mkfifo(blocked)
        project.write(".gitattributes", "*.slow filter=slow\n")
        project.write("one.slow", "content\n")
        project.git("config", "filter.slow.clean", f"cat > {blocked}.begun; cat {blocked}")
        controller = project.start("run", "quick.yaml", "--host", "far", start_new_session=True)
        wait_for(Path(f"{blocked}.begun"))
        os.killpg(controller.pid, signal.SIGINT)
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 130, out + err
        assert "nothing was started; the next run sends what is missing" in out
        assert "Traceback" not in err
        assert project.runs == []


def wait_for_courier(cache: Path, other_than: str) -> str:
    """The process id of a courier that waits, once it is another one."""
    end = time.monotonic() + COMMAND_DEADLINE_S
    while time.monotonic() < end:
        for path in cache.rglob("*.pid"):
            number = path.read_text("ascii")
            if number not in ("", other_than) and path.with_suffix(".sock").exists():
                return number
        time.sleep(0.02)
    raise AssertionError(f"no courier came: {list(cache.rglob('*'))}")


def behind(project: Project, server: SshServer, port: int) -> None:
    """A host that is reached through a proxy on that port."""
    config = project.home / "ssh_config"
    text = server.config.read_text("utf-8").replace(f"Port {server.port}", f"Port {port}")
    known = project.home / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {server.host_public_key}\n", "ascii")
    config.write_text(text.replace(str(server.known_hosts), str(known)), "utf-8")
    root = project.home / ".orch"
    project.write(
        "hosts.yaml",
        f"hosts:\n  far: {{ssh: testhost, ssh_config: '{config}', root: '{root}'}}\n",
    )


def wait_for_begin(project: Project) -> None:
    end = time.monotonic() + COMMAND_DEADLINE_S
    while not any(
        b"begun" in log.read_bytes() for log in project.home.glob(".orch/runs/*/steps/wait/log")
    ):
        assert time.monotonic() < end, "waited in vain for the step to begin"
        time.sleep(0.02)


class TestSizeGuard:
    def test_refuses_before_anything_is_stored_or_sent(self, project: Project) -> None:
        project.write("quick.yaml", QUICK + "max_upload: 1MB\n")
        for number in range(12):
            project.write(f"data/{number:02}.bin", os.urandom(100_000 + number))

        done = project.orch("run", "quick.yaml")

        assert done.code == 2
        assert "data/11.bin" in done.err
        assert "data/00.bin" not in done.err, "the ten largest, not all"
        assert ".gitignore" in done.err
        assert "max_upload" in done.err
        assert project.runs == []
        assert project.git("count-objects") == "0 objects, 0 kilobytes"

    def test_committed_files_that_the_host_lacks_count_as_well(self, project: Project) -> None:
        project.write("quick.yaml", QUICK + "max_upload: 1MB\n")
        project.write("big.bin", os.urandom(2_000_000))
        project.commit()

        done = project.orch("run", "quick.yaml")

        assert done.code == 2
        assert "the host lacks files of 2.0 MB" in done.err
        assert project.runs == []
        assert project.git("for-each-ref", "refs/orch/") == ""

    def test_what_the_host_has_is_not_sent_again(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write("big.bin", os.urandom(2_000_000))
        project.orch("run", "quick.yaml")
        project.write("small.txt", "new\n")

        project.orch("run", "quick.yaml")

        first, second = (project.record(run)["timings"]["uploaded_bytes"] for run in project.runs)
        assert first > 2_000_000
        assert second == 4


class TestWhatGoesAhead:
    """What changed since the last run goes to the host before it can say that it lacks it."""

    def test_a_right_guess_leaves_nothing_to_ask_for(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project.write("quick.yaml", QUICK)
        project.orch("run", "quick.yaml")
        project.write("small.txt", "new\n")
        heard = []

        def expect(session: Session, kind: str, deadline_s: float) -> Mapping[str, Any]:
            heard.append(really_expect(session, kind, deadline_s))
            return heard[-1]

        really_expect = Session.expect
        monkeypatch.setattr(Session, "expect", expect)
        monkeypatch.setenv("HOME", str(project.home))
        with closing(choose(plain=True, json=False)) as teller:
            code = run(Options(project.path / "quick.yaml"), teller)

        assert code == 0
        assert [message["count"] for message in heard if message["type"] == "need"] == [0]
        assert project.record()["timings"]["uploaded_bytes"] == 4

    def test_the_host_has_lost_what_it_was_sent(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write("old.txt", "old\n")
        project.orch("run", "quick.yaml")
        shutil.rmtree(project.home / ".orch" / "blobs")
        project.write("small.txt", "new\n")

        done = project.orch("run", "quick.yaml")

        assert done.code == 0, done.text
        assert project.record()["timings"]["uploaded_bytes"] == 8 + len(QUICK)

    def test_the_agent_goes_once(self, project: Project, trusted_ssh: SshServer) -> None:
        project.write("quick.yaml", QUICK)
        carried = []
        with slowlink.running(trusted_ssh.port, round_trip_s=0.0, bits_per_s=1e9) as link:
            behind(project, trusted_ssh, link.port)
            for gone in (False, False, True):
                if gone:
                    shutil.rmtree(project.home / ".orch" / "agents")
                before = link.carried_bytes
                done = project.orch("run", "quick.yaml", "--host", "far")
                assert done.code == 0, done.text
                carried.append(link.carried_bytes - before)

        first, again, missed = carried
        assert again < first - 150_000
        assert missed > again + 150_000, "sent anew after a login in vain"

    def test_too_much_waits_for_the_answer(self, project: Project) -> None:
        project.write("quick.yaml", QUICK)
        project.write("large.bin", b"first" * 100_000)
        project.orch("run", "quick.yaml")
        project.write("large.bin", b"other" * 100_000)
        project.orch("run", "quick.yaml")
        project.write("large.bin", b"first" * 100_000)

        done = project.orch("run", "quick.yaml")

        assert done.code == 0, done.text
        assert project.record()["timings"]["uploaded_bytes"] == 0


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
            end = time.monotonic() + COMMAND_DEADLINE_S
            while not list(short_path.rglob("*.sock")):
                assert time.monotonic() < end, "no courier came"
                time.sleep(0.05)
            logins = log.read_text("utf-8").count("Accepted publickey")
            (socket,) = short_path.rglob("*.sock")
            mode = socket.stat().st_mode
            second = project.orch("run", "quick.yaml", "--host", "there")
        finally:
            closed = project.orch("hosts", "close", "there")

        assert second.code == 0, second.text
        record = project.record()
        assert record["timings"]["connected_s"] < 1
        assert mode & 0o077 == 0
        # The courier itself logs in once more behind the second run; the run did not.
        assert log.read_text("utf-8").count("Accepted publickey") <= logins + 1
        assert "closed the connection" in closed.out

    def test_a_dead_courier_is_no_obstacle(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = courier._socket_path("there", host)
        path.parent.mkdir(mode=0o700, parents=True)
        path.touch()

        with Session("there", host, borrow=True) as session:
            assert not session.is_lent
            session.open("list")
            session.expect("welcome", 30)

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

    def test_the_number_of_a_killed_courier_is_not_another_process(
        self, host: Host, short_path: Path
    ) -> None:
        path = courier._socket_path("there", host).with_suffix(".pid")
        path.parent.mkdir(mode=0o700, parents=True)
        with subprocess.Popen(["sleep", "60"]) as bystander:
            path.write_text(str(bystander.pid), "ascii")

            dismissed = courier.dismiss("there", host)
            is_alive = bystander.poll() is None
            bystander.kill()

        assert not dismissed
        assert is_alive

    def test_a_folder_that_is_open_to_others_is_not_used(self, host: Host) -> None:
        path = courier._socket_path("there", host)
        path.parent.mkdir(mode=0o755, parents=True)

        assert courier.borrow("there", host) is None

    def test_without_keep_open_there_is_no_courier(self, tmp_path: Path) -> None:
        assert courier.borrow("here", local(tmp_path)) is None
