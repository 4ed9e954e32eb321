"""Short visits: lists, states, plans, logs and cancellations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import inspect
from orchestrator.agent.frames import Data
from orchestrator.agent.layout import Root
from orchestrator.agent.logfile import tail_files
from tests.agent.controller import RUN_ID, Controller, job, plan, run, wait_until
from tests.agent.test_follow import attach, folder, kill_supervisor, start, wait_script

FILES = {"a": b"x\n"}
OTHER = RUN_ID.replace("20260101", "20260102")


def ask(root: Path, action: str, answer: str, **facts: Any) -> dict[str, Any]:
    with Controller(root) as controller:
        return controller.ask(action, answer, **facts)


class TestListing:
    def test_of_nothing(self, tmp_path: Path) -> None:
        assert ask(tmp_path, "list", "runs")["runs"] == []

    def test_runs_with_how_far_they_are_oldest_first(self, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        root = tmp_path / "root"
        run(root, FILES, job("one", "true"), run_id=OTHER)
        start(root, wait_script(gate), "true")

        first, second = ask(root, "list", "runs")["runs"]
        gate.touch()
        attach(root)
        (ended,) = [r for r in ask(root, "list", "runs")["runs"] if r["run_id"] == RUN_ID]

        assert (first["run_id"], first["ended"], first["alive"]) == (RUN_ID, False, True)
        assert (first["jobs"], first["ended_jobs"]) == (2, 0)
        assert (second["run_id"], second["ended"], second["jobs"]) == (OTHER, True, 1)
        assert second["size"] > 1000
        assert (ended["ended"], ended["ended_jobs"]) == (True, 2)

    @pytest.mark.parametrize("damage", ["journal", "plan", "no plan"])
    def test_a_damaged_run_hides_no_other_one(self, tmp_path: Path, damage: str) -> None:
        run(tmp_path, FILES, job("one", "true"))
        run(tmp_path, FILES, job("one", "true"), run_id=OTHER)
        broken = Root.at(str(tmp_path)).run(RUN_ID)
        if damage == "journal":
            Path(broken.journal).write_bytes(b"rubbish\n")
        elif damage == "plan":
            Path(broken.plan).write_bytes(b"{")
        else:
            Path(broken.plan).unlink()

        first, second = ask(tmp_path, "list", "runs")["runs"]

        assert first["run_id"] == RUN_ID
        assert first["damage"]
        assert (second["run_id"], second["damage"]) == (OTHER, "")

    def test_files_that_vanish_while_they_are_counted_are_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a").write_bytes(b"xx")
        (tmp_path / "b").write_bytes(b"yyy")
        real = inspect.os.lstat

        def lstat(path: str) -> Any:
            if path.endswith("a"):
                raise FileNotFoundError(path)
            return real(path)

        monkeypatch.setattr(inspect.os, "lstat", lstat)

        assert inspect._size(str(tmp_path)) == 3


class TestOneRun:
    def test_by_its_beginning_when_only_one_has_it(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        run(tmp_path, FILES, job("one", "true"), run_id=OTHER)

        assert ask(tmp_path, "status", "status", run_id="20260102")["run_id"] == OTHER
        assert (
            ask(tmp_path, "plan", "plan", run_id=RUN_ID)["plan"]
            == plan(FILES, job("one", "true")).to_json()
        )

    @pytest.mark.parametrize("name", ["2026", "nothing", "", "../x", "."])
    def test_a_name_of_none_or_of_several_is_refused(self, tmp_path: Path, name: str) -> None:
        run(tmp_path, FILES, job("one", "true"))
        run(tmp_path, FILES, job("one", "true"), run_id=OTHER)

        with Controller(tmp_path) as controller:
            answer = controller.ask("status", "refused", run_id=name)

        assert answer["code"] == "no_such_run"

    def test_cancelling_what_has_ended_changes_nothing(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))

        answer = ask(tmp_path, "cancel", "cancelled", run_id=RUN_ID)

        assert answer["was_running"] is False
        assert not Path(Root.at(str(tmp_path)).run(RUN_ID).cancel).exists()

    def test_cancelling_what_runs_ends_it(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60")

        assert ask(root, "cancel", "cancelled", run_id=RUN_ID, who="me")["was_running"] is True

        assert Path(folder(root).cancel).read_text("ascii") == "me"
        assert attach(root).ended("job0")["state"] == "cancelled"


def log_of(controller: Controller, **facts: Any) -> tuple[str, bytes]:
    """The job whose log is told, and the log."""
    controller.hello("logs", run_id=RUN_ID, **facts)
    controller.expect("welcome")
    job_id = controller.expect("log_of")["id"]
    text = b"".join(f.body for f in controller.frames_until("bye") if isinstance(f, Data))
    return job_id, text


class TestLogs:
    def test_the_one_that_is_asked_for_or_the_last_one(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "echo first"), job("two", "echo second"))

        with Controller(tmp_path) as controller:
            assert log_of(controller, job="one") == ("one", b"first\n")
        with Controller(tmp_path) as controller:
            assert log_of(controller) == ("two", b"second\n")

    def test_a_long_one_comes_whole_and_soon(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "head -c 20000000 /dev/zero | tr '\\0' x"))
        begun = time.monotonic()

        with Controller(tmp_path) as controller:
            _, text = log_of(controller)

        assert text == b"x" * 20_000_000
        assert time.monotonic() - begun < 4

    def test_the_newest_lines_of_one_that_outgrew_its_head_come_while_the_job_runs(
        self, tmp_path: Path
    ) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        script = f"echo begun; seq 1 2000; {wait_script(gate)}"
        with Controller(root) as controller:
            controller.push(plan(FILES, job("job0", script, log_limit_bytes=4000)), FILES)
            controller.expect("started")
            log = controller.run.step("job0", "log")
        wait_until(
            lambda: any(b"2000\nbegun\n" in Path(name).read_bytes() for name in tail_files(log)),
            "the job to wait",
        )

        with Controller(root) as controller:
            _, now = log_of(controller)
        with Controller(root) as controller:
            controller.hello("logs", run_id=RUN_ID, follow=True)
            controller.expect("welcome")
            controller.expect("log_of")
            followed = b""
            for frame in controller.frames_until("bye"):
                followed += frame.body if isinstance(frame, Data) else b""
                if b"half of the log limit" in followed:
                    gate.touch()

        assert now.startswith(b"begun\n1\n2\n")
        assert b"\n[orch: some may be left out here; the newest lines follow]\n" in now
        assert now.endswith(b"1999\n2000\nbegun\n")
        assert b"[orch: half of the log limit is reached; the newest lines follow when" in followed
        assert b"bytes left out here; the log limit was reached]\n" in followed
        assert followed.endswith(b"2000\nbegun\nover\n")

    @pytest.mark.parametrize("follow", [False, True])
    def test_the_newest_lines_outlive_a_supervisor_that_could_not_put_them_in_place(
        self, tmp_path: Path, follow: bool
    ) -> None:
        root = tmp_path / "root"
        script = "seq 1 2000; echo waits; sleep 60"
        with Controller(root) as controller:
            controller.push(plan(FILES, job("job0", script, log_limit_bytes=4000)), FILES)
            controller.expect("started")
            log = controller.run.step("job0", "log")
        wait_until(
            lambda: any(b"waits\n" in Path(name).read_bytes() for name in tail_files(log)),
            "the job to wait",
        )
        kill_supervisor(root)

        with Controller(root) as controller:
            _, text = log_of(controller, follow=follow)

        assert text.startswith(b"1\n2\n")
        assert text.endswith(b"1999\n2000\nwaits\n")

    def test_following_ends_with_the_job(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate), "sleep 60")
        with Controller(root) as controller:
            controller.hello("logs", run_id=RUN_ID, job="job0", follow=True)
            controller.expect("welcome")
            controller.expect("log_of")
            gate.touch()
            text = b"".join(f.body for f in controller.frames_until("bye") if isinstance(f, Data))
        kill_supervisor(root)

        assert text == b"begun\nover\n"

    def test_following_ends_with_the_supervisor(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60")
        with Controller(root) as controller:
            controller.hello("logs", run_id=RUN_ID, follow=True)
            controller.expect("welcome")
            controller.expect("log_of")
            kill_supervisor(root)

            list(controller.frames_until("bye"))

    def test_a_controller_that_leaves_is_let_go(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        start(root, "echo begun; sleep 60")
        with Controller(root) as controller:
            controller.hello("logs", run_id=RUN_ID, follow=True)
            controller.expect("welcome")
            controller.expect("log_of")
            controller.tell("detach")
        kill_supervisor(root)

    @pytest.mark.parametrize("wanted", ["three", ""])
    def test_a_job_that_does_not_exist(self, tmp_path: Path, wanted: str) -> None:
        run(tmp_path, FILES)

        with Controller(tmp_path) as controller:
            answer = controller.ask("logs", "refused", run_id=RUN_ID, job=wanted)

        assert answer["code"] == "no_such_job"

    def test_a_log_that_is_not_there_yet_is_empty(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "false"), job("two", "true"), needs={"two": ["one"]})

        with Controller(tmp_path) as controller:
            assert log_of(controller, job="two") == ("two", b"")


def test_runs_that_are_still_being_pushed_are_not_listed(tmp_path: Path) -> None:
    with Controller(tmp_path) as controller, Controller(tmp_path) as other:
        controller.hello("run", plan=plan(FILES).to_json())
        controller.expect("welcome")
        wait_until(Path(controller.run.path).exists, "the run's directory")

        assert other.ask("list", "runs")["runs"] == []
