"""Coming home in several visits: whatever an earlier one left half done, the next one ends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import hold
from orchestrator.store.rundir import RunDir
from tests.conftest import COMMAND_DEADLINE_S, Project, until_said

RUN = """
experiment: quick
kind: probe
timeout: 60s
steps:
  - id: one
    run: echo words > "$ORCH_OUT/file.txt"; echo '{"metric":"m","value":1,"unit":"us"}' >> $ORCH_RESULTS
  - {id: two, run: exit 3}
"""  # noqa: E501

LONGER = '{"event":"note","level":"info","text":"of another run"}\n' * 2000
SHORTER = LONGER.partition("\n")[0] + "\n"
SLOW = """
experiment: slow
kind: probe
timeout: 60s
steps: [{id: a, run: sleep 60}]
"""


@pytest.fixture
def run(project: Project) -> RunDir:
    """A run that is home, in which a step failed."""
    project.write("quick.yaml", RUN)
    assert project.orch("run", "quick.yaml").code == 1
    return RunDir(project.last_run)


def note(run: RunDir, **facts: Any) -> None:
    record = json.loads(run.record_file.read_bytes())
    record["bundle"].update(facts.pop("bundle", {}))
    run.record_file.write_text(json.dumps({**record, **facts}), "utf-8")


def host_folder(project: Project, run: RunDir) -> Path:
    return project.home / ".orch" / "runs" / run.run_id


class TestStoppedBeforeItWasCalledHome:
    @pytest.mark.parametrize("is_renamed", [False, True])
    def test_what_is_unpacked_already_is_taken(
        self, project: Project, run: RunDir, is_renamed: bool
    ) -> None:
        note(run, state="ended")
        if not is_renamed:
            run.bundle.replace(run.incoming)
        places = [(path, path.stat().st_ino) for path in run.evidence.rglob("*")]

        assert project.orch("fetch", "latest").code == 1

        assert [(path, path.stat().st_ino) for path in run.evidence.rglob("*")] == places
        assert project.orch("verify", "latest").code == 0
        assert run.read_record().state == "home"

    def test_what_is_not_what_came_home_is_kept_aside(self, project: Project, run: RunDir) -> None:
        note(run, state="ended")
        (run.evidence / "steps" / "one" / "out" / "file.txt").write_text("changed")

        done = project.orch("fetch", "latest")

        assert done.code == 1, done.text
        kept = run.path / "evidence.replaced-1" / "steps" / "one" / "out" / "file.txt"
        assert kept.read_text() == "changed"
        assert str(kept.parents[3]) in done.out
        assert project.orch("verify", "latest").code == 0

    def test_what_was_being_unpacked_is_swept_away(self, project: Project, run: RunDir) -> None:
        note(run, state="ended")
        shutil.rmtree(run.evidence)
        run.bundle.replace(run.incoming)
        for name in ("..evidence-arrived-x1", ".evidence-x2"):
            (run.path / name / "steps").mkdir(parents=True)

        assert project.orch("fetch", "latest").code == 1

        assert [path.name for path in run.path.iterdir() if "evidence-" in path.name] == []

    def test_a_bundle_of_another_length_is_not_called_home(
        self, project: Project, run: RunDir
    ) -> None:
        note(run, state="ended")
        run.bundle.write_bytes(run.bundle.read_bytes() + b"more")
        run.bundle.replace(run.incoming)

        done = project.orch("fetch", "latest")

        assert done.code == 3
        assert f"orch fetch {run.run_id}" in done.err
        assert project.orch("fetch", "latest").code == 1
        assert project.orch("verify", "latest").code == 0

    @pytest.mark.parametrize("damage", ["{]\n", LONGER, SHORTER])
    def test_a_journal_that_is_not_the_hosts_is_forgotten(
        self, project: Project, run: RunDir, damage: str
    ) -> None:
        note(run, state="ended")
        shutil.rmtree(run.evidence)
        run.bundle.unlink()
        run.journal.write_text(damage, "utf-8")

        done = project.orch("fetch", "latest")

        assert done.code == 1, done.text
        assert project.orch("verify", "latest").code == 0

    def test_the_journal_that_came_home_counts_not_the_one_heard(
        self, project: Project, run: RunDir
    ) -> None:
        note(run, state="ended", bundle={"size": 1})
        run.bundle.unlink()
        shutil.rmtree(run.evidence)
        heard = run.journal.read_bytes()
        run.journal.write_bytes(heard.replace(b'"failed"', b'"passed"'))

        done = project.orch("fetch", "latest")

        assert heard != run.journal.read_bytes()
        assert done.code == 1, done.text
        assert json.loads(run.verdict.read_bytes())["exit_code"] == 1
        assert project.orch("verify", "latest").code == 0

    @pytest.mark.parametrize("host_has", ["nothing", "less"])
    def test_what_is_here_whole_needs_nothing_of_the_host(
        self, project: Project, run: RunDir, host_has: str
    ) -> None:
        note(run, state="ended")
        shutil.rmtree(run.evidence)
        run.bundle.replace(run.incoming)
        if host_has == "nothing":
            shutil.rmtree(host_folder(project, run))
        else:
            shutil.rmtree(host_folder(project, run) / "steps" / "one")
            (host_folder(project, run) / "bundle.zip").unlink()

        done = project.orch("fetch", "latest")

        assert done.code == 1, done.text
        assert (run.evidence / "steps" / "one" / "out" / "file.txt").read_text() == "words\n"
        assert project.orch("verify", "latest").code == 0

    @pytest.mark.parametrize("command", ["attach", "fetch"])
    def test_what_is_here_whole_needs_no_host_that_is_known(
        self, project: Project, run: RunDir, command: str
    ) -> None:
        note(run, state="ended", host="elsewhere")
        shutil.rmtree(run.evidence)

        done = project.orch(command, "latest")

        assert done.code == 1, done.text
        assert "no host `elsewhere` is known" in done.out
        assert run.read_record().bundle.confirmed is False  # type: ignore[union-attr]

    def test_an_event_that_lacks_a_key_costs_a_word(self, project: Project, run: RunDir) -> None:
        note(run, state="ended", bundle={"size": 1})
        run.bundle.unlink()
        shutil.rmtree(run.evidence)
        run.journal.unlink()
        there = host_folder(project, run) / "journal.jsonl"
        there.write_bytes(there.read_bytes().replace(b'"round":', b'"rounb":'))

        done = project.orch("fetch", "latest")

        assert done.code == 1, done.text
        assert "is not understood" in done.out
        assert project.orch("verify", "latest").code == 0


class TestHomeAlready:
    def test_it_is_checked_before_it_is_judged_again(self, project: Project, run: RunDir) -> None:
        (run.evidence / "steps" / "one" / "results.jsonl").unlink()

        assert project.orch("attach", "latest").code == 3

        assert run.read_record().exit_code == 1
        shutil.rmtree(run.evidence)
        assert project.orch("fetch", "latest").code == 1

    @pytest.mark.parametrize("command", ["attach", "fetch"])
    def test_its_host_may_be_unknown_here(
        self, project: Project, run: RunDir, command: str
    ) -> None:
        note(run, host="elsewhere", bundle={"confirmed": False})
        run.verdict.unlink()

        done = project.orch(command, "latest")

        assert done.code == 1, done.text
        assert run.verdict.exists()

    def test_its_exit_code_is_that_of_the_run(self, project: Project, run: RunDir) -> None:
        done = project.orch("fetch", "latest")

        assert (done.code, "home already" in done.out) == (1, True)

    def test_a_verdict_that_found_no_room_is_made(self, project: Project, run: RunDir) -> None:
        before = json.loads(run.verdict.read_bytes())
        run.verdict.unlink()

        assert project.orch("fetch", "latest").code == 1

        assert json.loads(run.verdict.read_bytes()) == before

    def test_a_host_that_was_not_told_is_told_late(self, project: Project, run: RunDir) -> None:
        note(run, bundle={"confirmed": False})
        (host_folder(project, run) / "sent_home").unlink()
        sweep = ("gc", "--host", "local", "--older-than", "1h")
        long_ago = time.time() - 7200
        os.utime(host_folder(project, run) / "journal.jsonl", (long_ago, long_ago))
        assert "never brought home" in project.orch(*sweep).text

        assert project.orch("fetch", "latest").code == 1

        assert run.read_record().bundle.confirmed  # type: ignore[union-attr]
        assert project.orch(*sweep).code == 0
        assert not host_folder(project, run).exists()

    def test_a_host_that_removed_the_run_needs_no_word(self, project: Project, run: RunDir) -> None:
        note(run, bundle={"confirmed": False})
        shutil.rmtree(host_folder(project, run))

        assert project.orch("fetch", "latest").code == 1

        assert run.read_record().bundle.confirmed  # type: ignore[union-attr]

    def test_evidence_that_is_broken_is_fetched_again(self, project: Project, run: RunDir) -> None:
        run.bundle.unlink()
        (run.evidence / "journal.jsonl").unlink()
        assert "orch fetch" in project.orch("show", "latest").err

        assert project.orch("fetch", "latest").code == 1

        assert project.orch("verify", "latest").code == 0

    def test_a_damaged_bundle_names_the_way_out(self, project: Project, run: RunDir) -> None:
        shutil.rmtree(run.evidence)
        run.bundle.write_bytes(b"no zip")

        done = project.orch("fetch", "latest")

        assert (done.code, f"remove {run.bundle}" in done.err) == (3, True)
        run.bundle.unlink()
        assert project.orch("fetch", "latest").code == 1
        assert project.orch("verify", "latest").code == 0


class TestOneAtATime:
    @pytest.mark.parametrize("command", ["attach", "fetch"])
    def test_another_is_refused_and_told_who_it_is(
        self, project: Project, run: RunDir, command: str
    ) -> None:
        with hold.held(run):
            done = project.orch(command, "latest")

        assert done.code == 3
        assert "another orch (process " in done.err
        assert project.orch(command, "latest").code == 1
        assert not (run.path / ".lock").exists()

    def test_a_sweep_here_leaves_it_alone(self, project: Project, run: RunDir) -> None:
        long_ago = time.time() - 7200
        os.utime(run.record_file, (long_ago, long_ago))
        with hold.held(run):
            kept = project.orch("gc", "--older-than", "1h")

        assert (kept.code, "stays: another orch" in kept.err) == (0, True)
        assert project.orch("gc", "--older-than", "1h").code == 0
        assert not run.path.exists()

    def test_a_link_in_its_place_is_not_written_through(
        self, project: Project, run: RunDir, tmp_path: Path
    ) -> None:
        victim = tmp_path / "victim"
        victim.write_text("mine")
        (run.path / ".lock").symlink_to(victim)

        done = project.orch("fetch", "latest")

        assert (done.code, victim.read_text()) == (3, "mine")

    def test_a_run_that_is_followed_is_held(self, project: Project) -> None:
        project.write("slow.yaml", SLOW)
        controller = project.start("run", "slow.yaml")
        until_said(controller, "started, deadline")

        refused = project.orch("attach", "latest")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert refused.code == 3, refused.text
        assert f"process {controller.pid}" in refused.err
        assert project.orch("cancel", "latest").code == 0
        assert project.orch("attach", "latest").code == 6


def test_a_limit_on_the_size_of_files_is_told(project: Project, run: RunDir) -> None:
    """A file system, or a shell, in which no file may be as long as the bundle."""
    note(run, state="ended")
    shutil.rmtree(run.evidence)
    run.bundle.unlink()

    done = subprocess.run(
        [
            "bash",
            "-c",
            'trap "" XFSZ; ulimit -f 8; exec "$@"',
            "sh",
            *project.command("fetch", "latest"),
        ],
        cwd=project.path,
        env={**os.environ, **project.env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert project.orch("fetch", "latest").code == 1
