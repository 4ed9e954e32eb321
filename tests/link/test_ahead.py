"""What is sent: no more than allowed, nothing twice, and some of it before it is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.link.session import Session
from orchestrator.report.teller import choose, closing
from orchestrator.run import Options, run
from tests.conftest import Project
from tests.hosts import slowlink
from tests.hosts.sshd import SshServer
from tests.link.reached import QUICK, behind


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
