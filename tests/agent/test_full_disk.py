"""A disk that a step fills: the later steps run, and what there is room for comes home."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.agent import journal
from orchestrator.agent.reserve import RESERVE_BYTES, Reserve, free_bytes
from tests.agent.controller import Controller, job, manifest, plan, run, wait_until
from tests.agent.test_follow import attach, folder, is_whole, kill_supervisor, start
from tests.conftest import Project
from tests.hosts import smalldisk

FILES = {"a": b"x\n"}
FILL = 'dd if=/dev/urandom of="$ORCH_OUT/fill.bin" bs=64k 2>/dev/null || echo full'
RECORD = """echo '{"metric":"rel_l2","value":null,"status":"error"}' >> $ORCH_RESULTS"""
CHATTY = "for n in $(seq 2000); do echo line $n of a chatty step; done"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB of its own."""
    place = tmp_path / "disk"
    with smalldisk.small_disk(place, 12):
        yield place


def fill(place: Path, leave_bytes: int = 0) -> None:
    """Write until nothing more goes in, or until no more than that is left."""
    with place.open("wb", buffering=0) as file:
        while free_bytes(str(place.parent)) > leave_bytes or not leave_bytes:
            try:
                file.write(b"x" * 4096)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return


class TestAStepThatFillsTheDisk:
    def test_costs_neither_later_steps_nor_the_journal_nor_small_files(
        self, small_disk: Path, tmp_path: Path
    ) -> None:
        heard = run(
            small_disk,
            FILES,
            job("before", 'echo kept > "$ORCH_OUT/small.txt"'),
            job("fill", FILL),
            job("chatty", CHATTY),
            job("after", "echo after"),
        )

        states = {e["id"]: e["state"] for e in heard.events if e["event"] == "step_ended"}
        assert states == dict.fromkeys(("before", "fill", "chatty", "after"), "passed")
        facts = json.loads(Path(folder(small_disk).bundle_facts).read_bytes())
        assert facts["left_behind"] == 1, "the file that fills the disk"
        assert heard.events[-1]["event"] == journal.RUN_ENDED
        assert heard.ended("after")["tail"] == ["after"]
        assert is_whole(heard, tmp_path / "bundle.zip")
        names = names_in(tmp_path / "bundle.zip")
        assert {"steps/before/out/small.txt", "steps/fill/log", "journal.jsonl"} <= names
        assert "steps/fill/out/fill.bin" not in names
        told = [*heard.notes("warning"), *heard.notes("error")]
        assert any("`steps/fill/out/fill.bin` (" in text for text in told), told
        assert any(str(small_disk) in text and "is full" in text for text in told), told

    def test_a_run_whose_supervisor_died_on_it_comes_home_too(
        self, small_disk: Path, tmp_path: Path
    ) -> None:
        filled = tmp_path / "filled"
        start(small_disk, f"echo begun; {FILL}; touch {filled}; sleep 60")
        wait_until(filled.exists, "the disk to be full")
        kill_supervisor(small_disk)

        heard = attach(small_disk)

        assert heard.ended("job0")["state"] == "host_lost"
        assert is_whole(heard, tmp_path / "bundle.zip")
        assert not Path(folder(small_disk).reserve).exists()


class TestADiskThatWasNearlyFullBefore:
    """There is no room to keep any back, and some for evidence."""

    @pytest.mark.parametrize("left_kb", [200, 400, 600, 900])
    def test_results_and_logs_come_along(
        self, small_disk: Path, tmp_path: Path, left_kb: int
    ) -> None:
        fill(small_disk / "filler", leave_bytes=left_kb << 10)

        heard = run(small_disk, FILES, job("a", f"{RECORD}; echo said"), job("b", "echo too"))

        assert heard.ended("a")["results"] == 1
        assert is_whole(heard, tmp_path / "bundle.zip")
        names = names_in(tmp_path / "bundle.zip")
        assert {"steps/a/results.jsonl", "steps/a/log", "steps/b/log"} <= names
        assert not any("not in the bundle" in text for text in heard.notes("error"))

    def test_they_come_before_what_a_step_wrote_besides(
        self, small_disk: Path, tmp_path: Path
    ) -> None:
        fill(small_disk / "filler", leave_bytes=800 << 10)
        files = "for n in $(seq 16); do head -c 30000 /dev/urandom > $ORCH_OUT/$n; done"

        heard = run(small_disk, FILES, job("a", files), job("z", f"{RECORD}; echo said"))

        assert is_whole(heard, tmp_path / "bundle.zip")
        names = names_in(tmp_path / "bundle.zip")
        assert {"steps/z/results.jsonl", "steps/z/log"} <= names
        (told,) = [text for text in heard.notes("warning") if "not in the bundle" in text]
        assert "`steps/a/out/" in told

    def test_results_that_have_no_room_are_an_error(self, small_disk: Path, tmp_path: Path) -> None:
        fill(small_disk / "filler", leave_bytes=900 << 10)
        many = 'head -c 400000 /dev/urandom | base64 -w 70 >> "$ORCH_RESULTS"'

        heard = run(small_disk, FILES, job("a", many), job("b", RECORD))

        assert heard.ended("a")["results"] > 1000
        assert is_whole(heard, tmp_path / "bundle.zip")
        names = names_in(tmp_path / "bundle.zip")
        assert "steps/a/results.jsonl" not in names
        assert "steps/b/results.jsonl" in names
        assert any("`steps/a/results.jsonl` (" in text for text in heard.notes("error"))


class TestThroughTheCommand:
    def test_a_full_disk_is_a_run_that_comes_home(self, project: Project, small_disk: Path) -> None:
        project.write("filling.yaml", FILLING)
        project.write(
            "hosts.yaml",
            f"hosts:\n  s: {{via: [bash, -c, 'exec \"$@\"', --], root: '{small_disk}'}}\n",
        )

        done = project.orch("run", "filling.yaml", "--host", "s")

        assert done.code == 0, done.text
        assert project.ended("after")["state"] == "passed"
        assert "`steps/fill/out/fill.bin` (" in done.out
        assert project.orch("verify", "latest").code == 0


class TestTheReserve:
    def test_is_taken_given_and_taken_again(self, small_disk: Path) -> None:
        reserve = Reserve(str(small_disk / "reserve"))

        taken = reserve.fill()
        fill(small_disk / "filler")
        given = reserve.give(100)
        (small_disk / "journal").write_bytes(b"x" * 100)
        again = reserve.fill()
        (small_disk / "filler").unlink()
        with_room = reserve.fill()

        assert (taken, given, again, with_room) == (True, True, False, True)
        assert reserve.size == RESERVE_BYTES

    def test_an_empty_one_gives_nothing(self, tmp_path: Path) -> None:
        assert not Reserve(str(tmp_path / "reserve")).give(1)


class TestAHostWithoutRoom:
    def test_says_where_and_how_to_go_on_and_is_not_called_unreachable(
        self, project: Project, small_disk: Path
    ) -> None:
        project.write("quick.yaml", QUICK)
        project.write("big.bin", os.urandom(1_000_000))
        project.write(
            "hosts.yaml",
            f"hosts:\n  s: {{via: [bash, -c, 'exec \"$@\"', --], root: '{small_disk}'}}\n",
        )
        fill(small_disk / "filler")

        swept = project.orch("gc", "--host", "s")
        done = project.orch("run", "quick.yaml", "--host", "s")

        assert swept.code == 0, swept.text
        assert done.code == 3, done.text
        assert "the disk of `s` is full" in done.err
        assert str(small_disk) in done.err
        assert "orch gc --host s" in done.err
        assert project.runs == []

    def test_an_agent_says_it_as_a_refusal_of_its_own(self, small_disk: Path) -> None:
        with Controller(small_disk) as controller:
            controller.ask("list", "runs")
        fill(small_disk / "filler")

        with Controller(small_disk) as controller:
            controller.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            controller.send_stream("manifest", manifest(FILES))
            answer = [m for m in controller.frames_until("refused") if isinstance(m, dict)][-1]

        assert answer["code"] == "disk_full"
        assert answer["text"].startswith(f"No space left on device: {small_disk}")


FILLING = f"""
experiment: filling
kind: probe
timeout: 30s
steps:
  - {{id: before, run: echo before}}
  - id: fill
    run: |
      {FILL}
  - id: chatty
    run: {CHATTY}
  - {{id: after, run: echo after}}
"""

QUICK = """
experiment: quick
kind: probe
timeout: 30s
steps:
  - {id: a, run: echo a}
"""


def names_in(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())
