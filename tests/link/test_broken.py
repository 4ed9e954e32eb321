"""Links that are slow, cut or gone while a run is sent, followed and brought home."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import COMMAND_DEADLINE_S, Project, until_said
from tests.hosts import slowlink
from tests.hosts.sshd import SshServer
from tests.link.reached import QUICK, behind

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


@pytest.fixture
def gate(project: Project) -> Path:
    """What the step of waiting.yaml waits for."""
    gate = project.home / "go"
    project.write("waiting.yaml", WAITING.replace("<gate>", str(gate)))
    return gate


class TestSlowAndBrokenLinks:
    def test_a_cut_link_is_tried_again_until_it_holds(
        self, project: Project, trusted_ssh: SshServer, gate: Path
    ) -> None:
        with slowlink.running(trusted_ssh.port, round_trip_s=0.02, bits_per_s=20e6) as link:
            behind(project, trusted_ssh, link.port)
            controller = project.start("run", "waiting.yaml", "--host", "far")
            wait_for_begin(project)
            link.cut()
            gate.touch()
            until_said(controller, "the link broke")
            link.mend()
            out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 0, out + err
        assert project.orch("verify", "latest").code == 0

    def test_a_link_that_stays_down_ends_with_5_and_says_how_to_go_on(
        self, project: Project, trusted_ssh: SshServer, gate: Path
    ) -> None:
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
        self, project: Project, trusted_ssh: SshServer, gate: Path
    ) -> None:
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


def wait_for_begin(project: Project) -> None:
    end = time.monotonic() + COMMAND_DEADLINE_S
    while not any(
        b"begun" in log.read_bytes() for log in project.home.glob(".orch/runs/*/steps/wait/log")
    ):
        assert time.monotonic() < end, "waited in vain for the step to begin"
        time.sleep(0.02)


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

    @pytest.mark.parametrize("way", ["local: true", "via: [bash, -c, 'exec \"$@\"', --]"])
    def test_a_root_that_cannot_be_made_is_named_with_its_fix(
        self, project: Project, way: str
    ) -> None:
        project.write("quick.yaml", QUICK)
        project.write("hosts.yaml", f"hosts:\n  there: {{{way}, root: /proc/x}}\n")

        done = project.orch("run", "quick.yaml", "--host", "there")

        assert done.code == 5, done.text
        assert "orch: /proc/x: No such file or directory" in done.err
        assert "set `root:` of the host, `/proc/x`, to a place that can be written" in done.err
        assert "Traceback" not in done.text
        assert "agent_python" not in done.text
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


def wait_for(path: Path) -> None:
    end = time.monotonic() + COMMAND_DEADLINE_S
    while not path.exists():
        assert time.monotonic() < end, f"waited in vain for {path}"
        time.sleep(0.02)
