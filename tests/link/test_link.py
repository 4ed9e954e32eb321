"""The session over real carriers: noise, refusals, host keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import HostKeyChanged, HostKeyUnknown, Unreachable
from orchestrator.link import visits
from orchestrator.link.refusal import Refused
from orchestrator.spec.hosts import Host
from tests.conftest import Project
from tests.hosts.sshd import SshServer
from tests.link.reached import local, over_ssh, via


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

        with pytest.raises(Unreachable, match=r"no connection to `gone` .*: Connection refused"):
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
