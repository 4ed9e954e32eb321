"""The bundle: whatever a run left, in one zip that the laptop accepts."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agent import bundle
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.store import unpack

NAMES = st.binary(min_size=1, max_size=20).map(
    lambda raw: os.fsdecode(raw.replace(b"\0", b"x").replace(b"/", b"x"))
)


class Run:
    """A run's directory on the host, filled by hand."""

    def __init__(self, folder: Path) -> None:
        self.root = Root.at(str(folder / "root"))
        self.folder: RunFolder = self.root.run("run-1")
        self.write("plan.json", b"{}")
        self.write("journal.jsonl", b'{"event": "run_started"}\n')
        self.notes: list[str] = []
        self.lost: list[str] = []

    def path(self, name: str) -> Path:
        return Path(self.folder.path, name)

    def write(self, name: str, body: bytes = b"x") -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return path

    def bundle(self, **more: Any) -> dict[str, object]:
        return bundle.write(self.folder, note=self.notes.append, lost=self.lost.append, **more)

    def unpacked(self, folder: Path) -> dict[str, bytes]:
        """What the laptop finds in it, but the manifest."""
        unpack.unpack(Path(self.folder.bundle), folder)
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


class TestContents:
    def test_everything_that_is_evidence_is_in_it(self, run: Run, tmp_path: Path) -> None:
        expected = {
            "steps/a/log": b"hello\n" * 50,
            "steps/a/results.jsonl": b"{}\n",
            "steps/a/out/deep/x.bin": random.Random(1).randbytes(5000),
            "steps/a/files/ü b": b"",
            "environment/before/smi.txt": b"GPU",
            "environment.before.json": b"{}",
            "environment.after.json": b"{}",
            "activation.log": b"x",
            "supervisor.log": b"",
            "plan.json": b"{}",
            "journal.jsonl": b'{"event": "run_started"}\n',
        }
        for name, body in expected.items():
            run.write(name, body)
        run.write("tree/source.py")
        run.write("caches/triton/x")
        run.write("supervisor.lock")
        run.write("payload/orch_results.py")

        run.bundle()

        assert run.unpacked(tmp_path / "evidence") == expected
        assert run.notes == []

    def test_its_facts_stand_beside_it(self, run: Run) -> None:
        facts = run.bundle()

        size = Path(run.folder.bundle).stat().st_size
        with zipfile.ZipFile(run.folder.bundle) as archive:
            manifest_sha256 = hashlib.sha256(archive.read("manifest.json")).hexdigest()
        crc32 = zlib.crc32(Path(run.folder.bundle).read_bytes())
        assert facts == {
            "size": size,
            "crc32": crc32,
            "manifest_sha256": manifest_sha256,
            "files": 2,
            "left_behind": 0,
        }
        assert json.loads(Path(run.folder.bundle_facts).read_text("ascii")) == facts
        assert not run.path("bundle.zip.part").exists()

    def test_the_same_files_are_the_same_bytes(self, run: Run, tmp_path: Path) -> None:
        """So that a bundle that is written anew goes on where a broken link left it."""
        run.write("steps/b/log", b"x" * 1000)
        run.write("steps/a/log", b"y" * 1000)
        run.bundle()
        first = Path(run.folder.bundle).read_bytes()
        os.utime(run.path("steps/a/log"), (1, 1))

        run.bundle()

        assert Path(run.folder.bundle).read_bytes() == first

    def test_executable_bits_come_along(self, run: Run, tmp_path: Path) -> None:
        run.write("steps/a/files/tool").chmod(0o755)

        run.bundle()
        run.unpacked(tmp_path / "evidence")

        assert (tmp_path / "evidence/steps/a/files/tool").stat().st_mode & 0o111

    def test_links_and_pipes_are_not_and_are_named(self, run: Run, tmp_path: Path) -> None:
        run.write("steps/a/log")
        run.path("steps/a/link").symlink_to("/etc/passwd")
        run.path("steps/folder").symlink_to("/etc")
        os.mkfifo(run.path("steps/a/pipe"))

        run.bundle()

        assert set(run.unpacked(tmp_path / "evidence")) == {
            "steps/a/log",
            "plan.json",
            "journal.jsonl",
        }
        assert run.notes == [
            "`steps/folder`, `steps/a/link` are links and are not in the bundle",
            "`steps/a/pipe` is neither a file nor a directory and is not in the bundle",
        ]

    def test_of_many_links_the_first_ones_are_named(self, run: Run) -> None:
        for number in range(12):
            path = run.path(f"steps/a/out/{number:02}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to("model.pt")

        run.bundle()

        (note,) = run.notes
        assert note.startswith("`steps/a/out/00`, ")
        assert note.endswith("`steps/a/out/09` and 2 more are links and are not in the bundle")

    def test_what_shrinks_is_deflated_and_what_does_not_is_stored(self, run: Run) -> None:
        run.write("steps/a/log", b"line\n" * 10_000)
        run.write("steps/a/out/noise", random.Random(1).randbytes(50_000))

        run.bundle()

        with zipfile.ZipFile(run.folder.bundle) as archive:
            infos = {info.filename: info for info in archive.infolist()}
        assert infos["steps/a/log"].compress_size < 1000
        assert infos["steps/a/out/noise"].compress_type == zipfile.ZIP_STORED

    def test_it_can_be_followed_while_it_grows(self, run: Run) -> None:
        """Whatever was written before the last word never changes afterwards."""
        run.write("steps/a/log", random.Random(1).randbytes(300_000))
        seen: list[bytes] = []

        def last_word() -> None:
            seen.append(run.path("bundle.zip.part").read_bytes())
            run.write("journal.jsonl", b'{"event": "run_ended"}\n')

        run.bundle(before_the_journal=last_word)

        raw = Path(run.folder.bundle).read_bytes()
        assert len(seen[0]) > 300_000
        assert raw.startswith(seen[0])
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            assert b"run_ended" in archive.read("journal.jsonl")


class TestOddNames:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    def test_every_file_a_step_can_write_comes_home(
        self, tmp_path_factory: pytest.TempPathFactory, names: list[str]
    ) -> None:
        folder = tmp_path_factory.mktemp("run")
        run = Run(folder)
        names = [name for name in names if name not in (".", "..")]
        for number, name in enumerate(names):
            run.write(f"steps/a/out/{name}", b"%d" % number)

        run.bundle()

        found = run.unpacked(folder / "evidence")
        bodies = sorted(body for name, body in found.items() if name.startswith("steps/a/out/"))
        assert bodies == sorted(b"%d" % number for number in range(len(names)))

    def test_names_that_are_one_on_a_laptop_both_come(self, run: Run, tmp_path: Path) -> None:
        for name in ("Model.json", "model.json", "a:b", "a%3Ab", "out", "OUT/x"):
            run.write(f"steps/a/out/{name}", name.encode())

        run.bundle()

        found = run.unpacked(tmp_path / "evidence")
        assert {b"Model.json", b"model.json", b"a:b", b"a%3Ab", b"out", b"OUT/x"} <= set(
            found.values()
        )


class TestLeftOut:
    def test_a_secret_in_a_name_is_neither_taken_nor_told(self, run: Run, tmp_path: Path) -> None:
        run.write("steps/a/out/hunter2-secret.json", b"{}")
        run.write("steps/a/out/hunter2-secret/inside")
        run.write("steps/a/out/fine")
        Path(run.folder.inside("steps/a/out/to-hunter2-secret")).symlink_to("fine")

        run.bundle(secrets=[b"hunter2-secret"])

        assert set(run.unpacked(tmp_path / "evidence")) == {
            "steps/a/out/fine",
            "plan.json",
            "journal.jsonl",
        }
        assert "hunter2" not in " ".join(run.notes)
        assert "`steps/a/out/***.json` bears the value of a secret" in " ".join(run.notes)
        assert b"hunter2" not in Path(run.folder.bundle).read_bytes()

    def test_a_file_that_holds_a_secret_stays_on_the_host(self, run: Run, tmp_path: Path) -> None:
        run.write("steps/a/out/leak", b"token=hunter2-secret")
        run.write("steps/a/out/fine")
        run.write("environment/before/env.txt", b"hunter2-secret")

        run.bundle(secrets=[b"hunter2-secret"])

        found = run.unpacked(tmp_path / "evidence")
        assert set(found) == {"steps/a/out/fine", "plan.json", "journal.jsonl"}
        assert run.notes == [
            "`steps/a/out/leak` holds the value of a secret and is not in the bundle",
            "`environment/before/env.txt` holds the value of a secret and is not in the bundle",
        ]

    def test_what_nobody_could_check_stays_there(self, run: Run, tmp_path: Path) -> None:
        for name in ("a/out/x", "a/out/deep/y", "a/results.jsonl", "a/log", "ab/out/z"):
            run.write(f"steps/{name}")

        run.bundle(left_out=["steps/a/out", "steps/a/results.jsonl"])

        found = run.unpacked(tmp_path / "evidence")
        assert {n for n in found if n.startswith("steps")} == {"steps/a/log", "steps/ab/out/z"}


class TestTrouble:
    def test_a_file_that_cannot_be_read_is_told_and_the_others_come(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run.write("steps/a/log")
        run.write("steps/a/out/locked")
        real = bundle.open_plain

        def refuse(path: str) -> io.FileIO:
            if path.endswith("locked"):
                raise PermissionError(errno.EACCES, "Permission denied")
            return real(path)

        monkeypatch.setattr(bundle, "open_plain", refuse)

        run.bundle()

        assert "steps/a/log" in run.unpacked(tmp_path / "evidence")
        assert run.notes == ["`steps/a/out/locked` is not in the bundle: Permission denied"]

    def test_a_file_that_was_swapped_for_a_link_is_not_followed(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "outside").write_text("precious", "ascii")
        path = run.write("steps/a/out/file")
        real = bundle.open_plain

        def swap(name: str) -> io.FileIO:
            if name.endswith("file"):
                path.unlink()
                path.symlink_to(tmp_path / "outside")
            return real(name)

        monkeypatch.setattr(bundle, "open_plain", swap)

        run.bundle()

        assert b"precious" not in run.unpacked(tmp_path / "evidence").values()
        assert len(run.notes) == 1

    def test_a_file_that_grows_while_it_is_read_comes_as_far_as_it_was(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = run.write("steps/a/out/growing", b"begin")
        real = bundle.open_plain

        def grow(name: str) -> io.FileIO:
            opened = real(name)
            if name.endswith("growing"):
                with path.open("ab") as file:
                    file.write(b" and more" * 1000)
            return opened

        monkeypatch.setattr(bundle, "open_plain", grow)

        run.bundle()

        assert run.unpacked(tmp_path / "evidence")["steps/a/out/growing"].startswith(b"begin")

    def test_more_files_than_a_laptop_would_unpack_are_left_out_and_counted(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bundle, "MAX_FILES", 12)
        monkeypatch.setattr(bundle, "RESERVED_FILES", 10)
        for number in range(9):
            run.write(f"steps/a/out/{number}")

        run.bundle()

        found = run.unpacked(tmp_path / "evidence")
        assert {"plan.json", "journal.jsonl"} <= set(found)
        assert len(found) == 4
        assert run.notes == ["7 files (7 bytes) are not in the bundle: it holds as much as it may"]

    def test_results_and_logs_are_none_of_them(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bundle, "MAX_FILES", 12)
        monkeypatch.setattr(bundle, "RESERVED_FILES", 10)
        for name in ("a/out/1", "a/out/2", "a/out/log", "z/log", "z/results.jsonl"):
            run.write(f"steps/{name}")

        run.bundle()

        found = run.unpacked(tmp_path / "evidence")
        assert {name for name in found if name.startswith("steps/")} == {
            "steps/z/log",
            "steps/z/results.jsonl",
        }
        assert run.notes == ["3 files (3 bytes) are not in the bundle: it holds as much as it may"]
        assert run.lost == []

    def test_results_that_cannot_be_read_are_lost(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run.write("steps/a/results.jsonl")
        real = bundle.open_plain

        def refuse(path: str) -> io.FileIO:
            if path.endswith("results.jsonl"):
                raise PermissionError(errno.EACCES, "Permission denied")
            return real(path)

        monkeypatch.setattr(bundle, "open_plain", refuse)

        run.bundle()

        assert run.notes == []
        assert run.lost == ["`steps/a/results.jsonl` is not in the bundle: Permission denied"]

    def test_more_bytes_too(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bundle, "MAX_BYTES", bundle.RESERVED_BYTES + 100)
        run.write("steps/a/out/big", b"x" * 200)
        run.write("steps/a/out/small", b"x" * 50)

        run.bundle()

        found = run.unpacked(tmp_path / "evidence")
        assert "steps/a/out/small" in found
        assert "steps/a/out/big" not in found
        assert run.notes == ["1 file (200 bytes) is not in the bundle: it holds as much as it may"]
