"""Following a run: from any byte, over cut links and dead supervisors, until the bundle is home."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from orchestrator.agent import runlock
from orchestrator.agent.frames import Data
from orchestrator.agent.layout import RunFolder
from orchestrator.store import unpack
from tests.agent.controller import (
    RUN_ID,
    Controller,
    Heard,
    job,
    plan,
    run,
    supervisor_pid,
    wait_until,
)

FILES = {"a": b"x\n"}


def folder(root: Path) -> RunFolder:
    return RunFolder(str(root / "runs" / RUN_ID))


def attach(root: Path, **more: int) -> Heard:
    with Controller(root) as controller:
        controller.hello("attach", run_id=RUN_ID, **more)
        controller.expect("welcome")
        controller.expect("attached")
        return controller.follow(**more)


def start(root: Path, *scripts: str, **more: object) -> None:
    """Start a run whose first job is under way, and leave it alone."""
    jobs = [job(f"job{number}", script) for number, script in enumerate(scripts)]
    with Controller(root) as controller:
        controller.push(plan(FILES, *jobs, **more), FILES)
        controller.expect("started")
        log = Path(controller.run.step("job0", "log"))
        wait_until(lambda: log.exists() and b"begun" in log.read_bytes(), "the job to begin")


def kill_supervisor(root: Path) -> None:
    os.kill(supervisor_pid(folder(root)), signal.SIGKILL)
    wait_until(lambda: not runlock.is_supervised(folder(root)), "the supervisor to be gone")


def is_whole(heard: Heard, place: Path) -> bool:
    """Whether a bundle is what its host says it is, and what its own manifest says."""
    end = heard.message("bundle_end")
    place.write_bytes(heard.bundle)
    unpack.check_members(place, end["manifest_sha256"])
    return bool(end["size"] == len(heard.bundle))


def wait_script(gate: Path) -> str:
    return f"echo begun; while [ ! -e {gate} ]; do sleep 0.02; done; echo over"


class TestFromTheBeginning:
    def test_every_byte_of_journal_and_bundle_comes(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "echo hi"))

        assert heard.journal == Path(folder(tmp_path / "root").journal).read_bytes()
        assert heard.bundle == Path(folder(tmp_path / "root").bundle).read_bytes()
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_the_last_line_of_the_running_log_is_told(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "echo working; sleep 0.6"))

        tail = heard.message("tail")
        assert (tail["id"], tail["line"]) == ("one", "working")

    def test_a_beat_is_heard_while_nothing_happens(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "true"))

        assert heard.message("beat")["at"].endswith("Z")


class TestFromTheMiddle:
    @pytest.mark.parametrize("known", [0, 1, 2, 3])
    def test_only_what_is_not_known_is_sent(self, tmp_path: Path, known: int) -> None:
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", "echo hi"))
        lines = whole.journal.splitlines(keepends=True)
        journal_at = len(b"".join(lines[:known]))
        bundle_at = len(whole.bundle) * known // 4

        heard = attach(root, journal_at=journal_at, bundle_at=bundle_at)

        assert heard.journal == whole.journal[journal_at:]
        assert heard.bundle == whole.bundle[bundle_at:]

    def test_a_run_under_way_is_taken_up_by_another_visit(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate), "echo second")
        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID, journal_at=0)
            controller.expect("welcome")
            controller.expect("attached")
            gate.touch()
            heard = controller.follow()

        assert [e["state"] for e in heard.events if e["event"] == "step_ended"] == [
            "passed",
            "passed",
        ]
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_two_may_follow_at_once(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        with Controller(root) as one, Controller(root) as other:
            for controller in (one, other):
                controller.hello("attach", run_id=RUN_ID, journal_at=0)
                controller.expect("welcome")
                controller.expect("attached")
            gate.touch()
            first, second = one.follow(), other.follow()

        assert first.journal == second.journal
        assert first.bundle == second.bundle

    def test_more_than_there_is_was_never_said(self, tmp_path: Path) -> None:
        run(tmp_path / "root", FILES, job("one", "true"))

        with Controller(tmp_path / "root") as controller:
            controller.hello("attach", run_id=RUN_ID, journal_at=10_000_000)
            controller.expect("welcome")
            refused = controller.expect("refused")

        assert refused["code"] == "other_journal"

    def test_a_run_that_is_not_here(self, tmp_path: Path) -> None:
        with Controller(tmp_path / "root") as controller:
            controller.hello("attach", run_id=RUN_ID)
            controller.expect("welcome")
            refused = controller.expect("refused")

        assert refused["code"] == "no_such_run"

    @pytest.mark.parametrize("name", ["../x", "", "a b", "é"])
    def test_a_name_that_is_no_run_id(self, tmp_path: Path, name: str) -> None:
        with Controller(tmp_path / "root") as controller:
            controller.hello("attach", run_id=name)
            controller.expect("welcome")
            refused = controller.expect("refused")

        assert refused["code"] == "no_such_run"


class TestLeaving:
    def test_detaching_ends_the_visit_and_not_the_run(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID, journal_at=0)
            controller.expect("welcome")
            controller.expect("attached")
            controller.tell("detach")
            controller.follow()

        assert runlock.is_supervised(folder(root))
        gate.touch()
        assert attach(root).ended("job0")["state"] == "passed"

    def test_a_link_that_breaks_ends_the_follower(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))

        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID)
            controller.expect("welcome")
            controller.expect("attached")
            # Leaving the block cuts the link, and waits for the agent to end.

        assert runlock.is_supervised(folder(root))
        gate.touch()
        attach(root)


class TestADeadSupervisor:
    def test_its_run_is_ended_and_comes_home(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60.75", "echo never")
        kill_supervisor(root)

        heard = attach(root)

        assert heard.ended("job0")["state"] == "host_lost"
        assert heard.ended("job1")["state"] == "not_started"
        last = heard.events[-1]
        assert (last["event"], last["rescued"]) == ("run_ended", True)
        assert last["counts"] == {"host_lost": 1, "not_started": 1}
        assert is_whole(heard, tmp_path / "bundle.zip")
        assert heard.message("host_lost")

    def test_while_somebody_follows(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60", "echo never")
        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID, journal_at=0)
            controller.expect("welcome")
            controller.expect("attached")
            os.kill(supervisor_pid(folder(root)), signal.SIGKILL)
            heard = controller.follow()

        assert heard.ended("job0")["state"] == "host_lost"
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_half_a_line_that_it_left_is_never_sent(self, tmp_path: Path) -> None:
        """A controller would keep it, and the host cuts it away."""
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60")
        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID, journal_at=0)
            controller.expect("welcome")
            controller.expect("attached")
            with Path(folder(root).journal).open("ab") as file:
                file.write(b'{"n": 99, "event": "no')
            # The next beat comes after many looks at the journal.
            early = [*controller.frames_until("beat"), *controller.frames_until("beat")]
            os.kill(supervisor_pid(folder(root)), signal.SIGKILL)
            sent = sum(len(f.body) for f in early if isinstance(f, Data))
            heard = controller.follow(journal_at=sent)

        known = b"".join(f.body for f in early if isinstance(f, Data))
        assert known + heard.journal == Path(folder(root).journal).read_bytes()
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_that_was_writing_the_bundle_is_replaced(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", "echo hi; head -c 300000 /dev/urandom > $ORCH_OUT/x"))
        host = folder(root)
        Path(host.bundle).rename(f"{host.bundle}.part")
        raw = Path(f"{host.bundle}.part").read_bytes()
        Path(f"{host.bundle}.part").write_bytes(raw[:200_000])
        Path(host.bundle_facts).unlink()

        heard = attach(root, journal_at=len(whole.journal), bundle_at=150_000)

        assert whole.bundle[:150_000] + heard.bundle == whole.bundle
        end = heard.message("bundle_end")
        assert end["manifest_sha256"] == whole.message("bundle_end")["manifest_sha256"]

    def test_that_was_writing_one_of_a_run_with_secrets_is_replaced_from_its_beginning(
        self, tmp_path: Path
    ) -> None:
        """The files of its steps stay behind: nobody can look through them any more."""
        root = tmp_path / "root"
        command = "echo hi; head -c 300000 /dev/urandom > $ORCH_OUT/x"
        secret = {"TOKEN": "hunter2-secret"}
        whole = run(root, FILES, job("one", command), secrets=secret)
        host = folder(root)
        ordered = json.loads(Path(host.plan).read_text("utf-8"))
        Path(host.plan).write_text(json.dumps({**ordered, "secrets": ["TOKEN"]}), "utf-8")
        Path(host.bundle_manifest).unlink()
        Path(host.bundle).rename(f"{host.bundle}.part")
        raw = Path(f"{host.bundle}.part").read_bytes()
        Path(f"{host.bundle}.part").write_bytes(raw[:200_000])
        Path(host.bundle_facts).unlink()

        heard = attach(root, journal_at=len(whole.journal), bundle_at=150_000)

        assert is_whole(heard, tmp_path / "bundle.zip")
        assert len(heard.bundle) < 150_000

    def test_a_journal_that_is_damaged_keeps_no_bundle_from_home(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        whole = run(root, FILES, job("one", "echo hi"))
        with Path(folder(root).journal).open("ab") as file:
            file.write(b"{]\n")

        heard = attach(root)

        assert heard.bundle == whole.bundle

    def test_one_that_is_damaged_and_has_no_bundle_is_refused_in_words(
        self, tmp_path: Path
    ) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        Path(folder(root).bundle).unlink()
        Path(folder(root).plan).write_text("{]")

        with Controller(root) as controller:
            controller.hello("attach", run_id=RUN_ID)
            refused = next(
                frame
                for frame in controller.frames_until("refused")
                if not isinstance(frame, Data) and frame["type"] == "refused"
            )

        assert refused["code"] == "damaged_run"
        assert folder(root).path in refused["text"]

    def test_that_died_behind_its_last_word_is_replaced_too(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        run(root, FILES, job("one", "echo hi"))
        Path(folder(root).bundle).unlink()
        Path(folder(root).bundle_facts).unlink()

        heard = attach(root)

        assert sum(event["event"] == "run_ended" for event in heard.events) == 1
        assert is_whole(heard, tmp_path / "bundle.zip")

    def test_what_its_job_left_running_is_killed(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "setsid sleep 61.125 & echo begun; sleep 60")
        kill_supervisor(root)

        heard = attach(root)

        # Its shell may be dying still; it is one that was left too.
        assert "sleep" in heard.ended("job0")["leftover"]
        running = [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if b"61.125" in read_or_nothing(path)
        ]
        assert running == []

    def test_files_of_its_job_stay_when_nobody_can_look_for_secrets(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo secret > $ORCH_OUT/x; echo begun; sleep 60", secrets=["TOKEN"])
        kill_supervisor(root)

        heard = attach(root)

        place = tmp_path / "bundle.zip"
        assert is_whole(heard, place)
        names = [member.path for member in unpack.check_members(place).members]
        assert "steps/job0/log" in names
        assert not [name for name in names if name.startswith("steps/job0/out")]
        assert heard.notes("warning") == [
            "files of lost jobs stay on the host: nobody can look for secrets in them"
        ]


def read_or_nothing(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_facts_of_the_bundle_are_the_hosts(tmp_path: Path) -> None:
    heard = run(tmp_path / "root", FILES, job("one", "true"))

    facts = json.loads(Path(folder(tmp_path / "root").bundle_facts).read_text("ascii"))
    end = heard.message("bundle_end")
    assert {name: end[name] for name in facts} == facts
