"""artifacts/<run-id>/: made, found, read, and written so that nobody sees half a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from orchestrator.errors import EvidenceError, InputError
from orchestrator.store import rundir
from orchestrator.store.record import Bundle, RunRecord, Tree
from orchestrator.store.rundir import RunDir
from tests.store.bundles import honest, sha256


def record(run_id: str = "20260101-000000-exp-aaaa") -> RunRecord:
    return RunRecord(
        run_id=run_id,
        experiment="exp",
        experiment_file="exp.yaml",
        host="local",
        carrier="local",
        created_at="2026-01-01T00:00:00.000Z",
        orch_version="0.1.0",
        tree=Tree(local="a" * 40),
    )


def made(artifacts: Path, run_id: str) -> RunDir:
    folder = rundir.create(artifacts, run_id)
    folder.write_record(record(run_id))
    return folder


class TestCreate:
    def test_runs_are_kept_out_of_the_next_snapshot(self, tmp_path: Path) -> None:
        rundir.create(tmp_path / "artifacts", "run-1")

        assert (tmp_path / "artifacts/.gitignore").read_text("utf-8") == "*\n"

    def test_an_artifacts_directory_that_is_there_is_left_as_it_is(self, tmp_path: Path) -> None:
        rundir.create(tmp_path, "run-1")

        assert not (tmp_path / ".gitignore").exists()

    def test_a_second_run_of_that_name_is_refused(self, tmp_path: Path) -> None:
        rundir.create(tmp_path, "run-1")

        with pytest.raises(EvidenceError, match="there is a run `run-1` already"):
            rundir.create(tmp_path, "run-1")

    @pytest.mark.parametrize("name", ["../evil", "a/b", "", ".", "..", "/abs", "a\\b", ".hidden"])
    def test_a_name_that_a_host_made_up_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(EvidenceError, match="is not a run id"):
            rundir.create(tmp_path / "artifacts", name)

        assert list(tmp_path.iterdir()) == []


class TestFind:
    def test_by_id_by_beginning_by_path_and_the_latest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old, new = made(tmp_path, "2026-old"), made(tmp_path, "2027-new")
        monkeypatch.chdir(tmp_path)

        assert rundir.find(tmp_path, "2026-old") == old
        assert rundir.find(tmp_path, "2027") == new
        assert rundir.find(tmp_path, "latest") == new
        assert rundir.find(tmp_path / "elsewhere", "2026-old").path == old.path
        assert rundir.find(tmp_path / "elsewhere", str(old.path)) == old

    def test_of_two_in_one_second_the_latest_is_the_one_made_later(self, tmp_path: Path) -> None:
        later, earlier = (made(tmp_path, f"20260101-000000-exp-{end}") for end in ("aaaa", "ffff"))
        for run, milliseconds in ((earlier, "100"), (later, "900")):
            at = f"2026-01-01T00:00:00.{milliseconds}Z"
            run.write_record(record(run.run_id).model_copy(update={"created_at": at}))

        assert rundir.find(tmp_path, "latest") == later
        assert rundir.run_dirs(tmp_path) == [earlier, later]

    def test_an_id_that_begins_another_one_means_itself(self, tmp_path: Path) -> None:
        short = made(tmp_path, "run-1")
        made(tmp_path, "run-10")

        assert rundir.find(tmp_path, "run-1") == short

    def test_a_beginning_of_two_is_refused_with_both(self, tmp_path: Path) -> None:
        made(tmp_path, "2026-a")
        made(tmp_path, "2026-b")

        with pytest.raises(InputError, match="could be `2026-a`, `2026-b`"):
            rundir.find(tmp_path, "2026")

    def test_one_that_was_put_away_packed_is_unpacked(self, tmp_path: Path) -> None:
        run = made(tmp_path, "run-1")
        content = honest()
        content.write(run.bundle)
        size, manifest_sha256 = run.bundle.stat().st_size, sha256(content.manifest())
        came_home = record("run-1").model_copy(
            update={"bundle": Bundle(size=size, manifest_sha256=manifest_sha256)}
        )
        run.write_record(came_home)

        rundir.find(tmp_path, "run-1")

        assert (run.evidence / "steps/a/log").read_bytes() == b"hello\n" * 100

    def test_one_whose_bundle_is_not_the_hosts_stays_packed(self, tmp_path: Path) -> None:
        run = made(tmp_path, "run-1")
        honest().write(run.bundle)
        forged = Bundle(size=1, manifest_sha256="0" * 64)
        run.write_record(record("run-1").model_copy(update={"bundle": forged}))

        with pytest.raises(EvidenceError, match="the host's is 000000000000"):
            rundir.find(tmp_path, "run-1")

        assert not run.evidence.exists()

    @pytest.mark.parametrize("name", ["latest", "nothing", ""])
    def test_nothing_there(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError, match="no run `"):
            rundir.find(tmp_path / "nowhere", name)

    def test_directories_without_a_record_are_not_runs(self, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "file").write_text("x", "ascii")
        run = made(tmp_path, "run-1")

        assert rundir.run_dirs(tmp_path) == [run]


class TestRecord:
    def test_is_read_back_as_it_was_written(self, tmp_path: Path) -> None:
        folder = rundir.create(tmp_path, "run-1")
        folder.write_record(record())

        assert folder.read_record() == record()

    def test_what_a_newer_orch_added_is_kept(self, tmp_path: Path) -> None:
        folder = rundir.create(tmp_path, "run-1")
        document = json.loads(record().model_dump_json(by_alias=True))
        document["novelty"] = {"x": 1}
        document["tree"]["more"] = 2
        folder.record_file.write_text(json.dumps(document), "utf-8")

        folder.write_record(folder.read_record())

        again = json.loads(folder.record_file.read_text("utf-8"))
        assert again["novelty"] == {"x": 1}
        assert again["tree"]["more"] == 2

    @pytest.mark.parametrize(
        "text", [b"", b"{", b"null", b"{}", b"\xff", b'{"run_id": 5}', b"[" * 100_000]
    )
    def test_a_damaged_one_says_how_to_get_it_back(self, tmp_path: Path, text: bytes) -> None:
        folder = rundir.create(tmp_path, "run-1")
        folder.record_file.write_bytes(text)

        with pytest.raises(EvidenceError, match=r"run\.json is damaged") as caught:
            folder.read_record()

        assert (
            caught.value.fix == f"move {folder.path} away, then orch fetch run-1 --host <its host>"
        )

    def test_a_state_that_does_not_exist_is_damage(self, tmp_path: Path) -> None:
        folder = rundir.create(tmp_path, "run-1")
        text = record().model_dump_json(by_alias=True).replace('"created"', '"finished"')
        folder.record_file.write_text(text, "utf-8")

        with pytest.raises(EvidenceError, match="1 field is wrong"):
            folder.read_record()

    def test_a_missing_one_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(EvidenceError, match=r"cannot read .*run\.json: No such file"):
            RunDir(tmp_path).read_record()


class TestWriteAtomically:
    def test_the_old_text_stays_when_writing_fails(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        rundir.write_atomically(path, "old\n")

        with pytest.raises(UnicodeEncodeError):
            rundir.write_atomically(path, "new \udcff\n")

        assert path.read_text("utf-8") == "old\n"
        assert list(tmp_path.iterdir()) == [path]

    def test_line_ends_are_the_same_on_every_system(self, tmp_path: Path) -> None:
        rundir.write_atomically(tmp_path / "file", "a\nb\n")

        assert (tmp_path / "file").read_bytes() == b"a\nb\n"

    def test_the_file_can_be_read_by_those_who_can_read_others(self, tmp_path: Path) -> None:
        (tmp_path / "other").write_text("x", "ascii")
        rundir.write_atomically(tmp_path / "file", "x")

        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert len(modes) == 1


class TestReadJson:
    @pytest.mark.parametrize("text", [b"", b"{", b"\xff\xff", b"[" * 100_000])
    def test_damage_is_told_with_the_file(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / "plan.json").write_bytes(text)

        with pytest.raises(EvidenceError, match=r"plan\.json is damaged"):
            rundir.read_json(tmp_path / "plan.json")

    def test_a_missing_file_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(EvidenceError, match="cannot read"):
            rundir.read_json(tmp_path / "plan.json")


def test_artifacts_can_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rundir.artifacts_dir(tmp_path) == tmp_path / "artifacts"

    monkeypatch.setenv("ORCH_ARTIFACTS", "~/runs")

    assert rundir.artifacts_dir(tmp_path) == Path.home() / "runs"
