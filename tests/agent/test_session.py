"""One controller's visit: a tree pushed, verified and started, or refused without a trace."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from orchestrator.agent import frames, spare
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.layout import Root
from tests.agent.controller import (
    RUN_ID,
    Controller,
    job,
    parcel,
    plan,
    run,
    supervisor_pid,
    wait_until,
)
from tests.agent.test_job import is_running
from tests.agent.trees import blob_hash, bodies, executable, link, manifest, on_disk, tree_hash

FILES = {
    "a": b"first\n",
    "deep/run.sh": executable(b"#!/bin/sh\necho hi\n"),
    "deep/link": link(b"../a"),
    "odd \udcff\n": b"x" * 5000,
    "same": b"first\n",
}
OTHER = f"{RUN_ID}b"


def runs(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "runs").iterdir())


def gone(root: Path) -> None:
    """The supervisor, which was looking at the host meanwhile, leaves no trace either."""
    wait_until(lambda: runs(root) == [], "the run's directory to go")


class TestPushing:
    @pytest.mark.parametrize("object_format", ["sha1", "sha256"])
    def test_the_tree_on_the_host_is_the_one_that_was_sent(
        self, tmp_path: Path, object_format: str
    ) -> None:
        heard = run(tmp_path, FILES, job("one", "deep/run.sh"), object_format=object_format)

        assert heard.ended("one")["state"] == "passed"
        assert on_disk(tmp_path / "runs" / RUN_ID / "tree") == FILES
        assert heard.events[0]["tree"] == tree_hash(FILES, object_format)

    def test_what_the_host_has_is_not_asked_for_again(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            assert controller.push(plan(FILES), FILES) == 4
            controller.follow()
        changed = {**FILES, "a": b"second\n"}

        with Controller(tmp_path) as controller:
            assert controller.push(plan(changed, run_id=OTHER), changed) == 1
            controller.follow()

        assert on_disk(tmp_path / "runs" / OTHER / "tree") == changed

    @pytest.mark.parametrize(
        ("ahead", "asked_for"),
        [
            ([b"second\n"], 1),
            ([b"second\n", b"third\n"], 0),
            ([b"first\n"], 2),
            (bodies({**FILES, "a": b"second\n", "b": b"third\n"}), 0),
        ],
        ids=["a part", "what is missing", "in vain", "everything"],
    )
    def test_a_controller_may_send_blobs_ahead_of_the_answer(
        self, tmp_path: Path, ahead: list[bytes], asked_for: int
    ) -> None:
        run(tmp_path, FILES)
        changed = {**FILES, "a": b"second\n", "b": b"third\n"}

        with Controller(tmp_path) as controller:
            pushed = controller.push(plan(changed, run_id=OTHER), changed, ahead=ahead)
            controller.follow()

        assert pushed == asked_for
        assert on_disk(tmp_path / "runs" / OTHER / "tree") == changed

    def test_an_empty_tree(self, tmp_path: Path) -> None:
        heard = run(tmp_path, {}, job("one", "ls -A"))

        assert heard.ended("one")["tail"] == []

    def test_a_large_tree_is_taken_from_a_spare_the_next_time(self, tmp_path: Path) -> None:
        files = {f"dir{n % 7}/file{n}": b"%d\n" % n for n in range(spare.MIN_FILES + 5)}
        run(tmp_path, files, job("one", "echo spoilt > dir1/file1"))
        spares = tmp_path / "spares"
        wait_until(
            lambda: spares.exists() and [p for p in spares.iterdir() if p.name[0] != "."],
            "the spare to be made",
        )

        run(tmp_path, files, job("one", "true"), run_id=OTHER)

        assert on_disk(tmp_path / "runs" / OTHER / "tree") == files


def loose_bomb(body: bytes) -> bytes:
    """A loose object that inflates to much more than its size says."""
    sent = zlib.compress(b"blob %d\0" % len(body) + body * 1_000_000)
    return struct.pack("!IBQQ", 0, 1, len(sent), len(body)) + sent


class TestRefusals:
    def refusal(self, controller: Controller) -> tuple[str, str]:
        answer = controller.expect("refused")
        return answer["code"], answer["text"]

    def test_another_tree_than_announced(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(FILES, tree="f" * 40).to_json())
            controller.send_stream("manifest", manifest(FILES))
            controller.expect("welcome")
            controller.expect("need")
            code, text = self.refusal(controller)

        assert code == "TreeError"
        assert text == f"the tree has the hash {tree_hash(FILES)}, not {'f' * 40}"
        gone(tmp_path)

    def test_bytes_that_are_not_the_blob(self, tmp_path: Path) -> None:
        files = {"a": b"right"}
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(files).to_json())
            controller.send_stream("manifest", manifest(files))
            controller.expect("welcome")
            controller.expect("need")
            controller.send_stream("blobs", parcel(0, b"wrong"))
            code, text = self.refusal(controller)

        assert code == "BlobError"
        assert blob_hash(b"right") in text
        gone(tmp_path)

    @pytest.mark.parametrize(
        ("sent", "code"),
        [
            (parcel(0, b"right")[:-1], "cut_short"),
            (parcel(0, b"right") + b"+", "too_much"),
            (b"\0\0", "cut_short"),
            (parcel(1, b"right"), "not_asked_for"),
            (parcel(0, b"righ", loose=True), "BlobError"),
            (parcel(0, b"right", loose=True)[:-6], "cut_short"),
            (loose_bomb(b"right"), "BlobError"),
            (struct.pack("!IBQQ", 0, 1, 5, 5) + b"right", "BlobError"),
        ],
    )
    def test_fewer_or_more_bytes_than_asked_for(
        self, tmp_path: Path, sent: bytes, code: str
    ) -> None:
        files = {"a": b"right"}
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(files).to_json())
            controller.send_stream("manifest", manifest(files))
            controller.expect("welcome")
            controller.expect("need")
            controller.send_stream("blobs", sent)

            assert self.refusal(controller)[0] == code

        gone(tmp_path)

    @pytest.mark.parametrize("presumed", ["4", "-1", "none"])
    def test_a_bitmap_that_is_none(self, tmp_path: Path, presumed: str) -> None:
        files = {"a": b"right"}
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(files).to_json(), ahead=presumed)
            controller.send_stream("manifest", manifest(files))
            controller.expect("welcome")

            assert self.refusal(controller)[0] == "FrameError"

        gone(tmp_path)

    @pytest.mark.parametrize(
        "record", [b"160000 commit " + b"a" * 40 + b"\tsub\0", b"100644 blob x\t../evil\0"]
    )
    def test_a_manifest_that_is_none(self, tmp_path: Path, record: bytes) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan({}).to_json())
            controller.send_stream("manifest", record)
            controller.expect("welcome")

            assert self.refusal(controller)[0] == "TreeError"

        gone(tmp_path)

    def test_a_link_that_leaves_the_tree(self, tmp_path: Path) -> None:
        files = {"out": link(b"../../../../etc/passwd")}
        with Controller(tmp_path) as controller:
            controller.push(plan(files), files)

            assert self.refusal(controller)[0] == "TreeError"

        gone(tmp_path)

    def test_a_run_that_exists_is_left_as_it_is(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        before = (tmp_path / "runs" / RUN_ID / "journal.jsonl").read_bytes()

        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(FILES).to_json())
            controller.expect("welcome")

            assert self.refusal(controller)[0] == "run_exists"

        assert (tmp_path / "runs" / RUN_ID / "journal.jsonl").read_bytes() == before
        assert (tmp_path / "runs" / RUN_ID / "bundle.zip").exists()

    def test_a_run_that_another_visit_is_pushing_is_left_alone(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as first, Controller(tmp_path) as second:
            first.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            first.expect("welcome")
            wait_until(Path(first.run.path).exists, "the first visit to claim the name")
            second.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            second.expect("welcome")

            assert self.refusal(second)[0] == "run_exists"

            first.send_stream("manifest", manifest(FILES))
            need = first.expect("need")
            assert need["count"] == 4


class TestALinkThatBreaks:
    def test_in_the_middle_of_the_tree_leaves_no_run_and_no_process(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            controller.send_stream("manifest", manifest(FILES))
            controller.expect("welcome")
            controller.expect("need")
            wait_until(Path(controller.run.supervisor).exists, "the supervisor")
            pid = supervisor_pid(controller.run)
            controller.write(b"\0\0\0\5")

        wait_until(lambda: not is_running(pid), "the supervisor to end")
        gone(tmp_path)

    def test_what_had_arrived_is_kept_for_the_next_try(self, tmp_path: Path) -> None:
        files = {"a": b"one\n", "b": b"two\n"}
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(files).to_json())
            controller.send_stream("manifest", manifest(files))
            controller.expect("welcome")
            controller.expect("need")
            first = parcel(0, b"one\n")
            controller.write(controller._packer.data("blobs", 0, first))
            wait_until(
                lambda: (tmp_path / "runs" / RUN_ID / "tree" / "a").exists(), "the first file"
            )

        store = BlobStore(Root.at(str(tmp_path)).blobs, "sha1")
        assert store.missing([blob_hash(b"one\n"), blob_hash(b"two\n")]) == [blob_hash(b"two\n")]
        store.close()

    def test_a_killed_agent_leaves_nothing_that_looks_like_a_run(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            controller.send_stream("manifest", manifest(FILES))
            controller.expect("welcome")
            controller.expect("need")
            wait_until(Path(controller.run.supervisor).exists, "the supervisor")
            pid = supervisor_pid(controller.run)
            controller.kill_agent()

        wait_until(lambda: not is_running(pid), "the supervisor to end")
        assert not (tmp_path / "runs" / RUN_ID / "journal.jsonl").exists()
        with Controller(tmp_path) as controller:
            assert controller.ask("list", "runs")["runs"] == []


class TestDamagedStore:
    def test_a_damaged_blob_refuses_once_and_is_sent_the_next_time(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        for pack in (tmp_path / "blobs").glob("*.pack"):
            pack.write_bytes(bytes(pack.stat().st_size))

        with Controller(tmp_path) as controller:
            controller.push(plan(FILES, run_id=OTHER), FILES)
            refused = controller.expect("refused")
        assert "is damaged and was removed; run again" in refused["text"]
        assert runs(tmp_path) == [RUN_ID]

        for _ in range(4):
            with Controller(tmp_path) as controller:
                controller.push(plan(FILES, run_id=OTHER), FILES)
                if controller.expect("started", "refused")["type"] == "started":
                    controller.follow()
                    break

        assert on_disk(tmp_path / "runs" / OTHER / "tree") == FILES


class TestAChangeOfMind:
    def test_a_run_that_is_abandoned_in_time_leaves_nothing(self, tmp_path: Path) -> None:
        files = {"a": b"first\n"}
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(files, job("one", "true")).to_json())
            controller.send_stream("manifest", manifest(files))
            controller.expect("welcome")
            controller.expect("need")
            # In one write, so that the second word is there when the tree is whole.
            controller.write(
                frames.Packer().data("blobs", 0, parcel(0, files["a"]))
                + frames.message({"type": "blobs_end"})
                + frames.message({"type": "abandon"})
            )
            answer = controller.expect("refused", "started")

        assert answer["type"] == "refused"
        assert answer["code"] == "abandoned"
        assert runs(tmp_path) == []


def test_the_manifest_of_a_run_stays_with_it(tmp_path: Path) -> None:
    run(tmp_path, FILES, job("one", "true"))

    assert (tmp_path / "runs" / RUN_ID / "manifest").read_bytes() == manifest(FILES)
    assert json.loads((tmp_path / "runs" / RUN_ID / "plan.json").read_text("utf-8"))
