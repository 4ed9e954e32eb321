"""What a side of a comparison lets in: no links, no pipes, no paths out of an archive."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from orchestrator.diff import comparison
from orchestrator.diff.comparison import Comparison
from orchestrator.errors import EvidenceError, InputError
from tests.conftest import Project


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    path.write_bytes(target.getvalue())
    return path


def compared(a: Path, b: Path) -> Comparison:
    return comparison.compare(str(a), str(b), a.parent)


def notes(found: Comparison) -> dict[str, tuple[str, str]]:
    return {record.path: (record.status, record.note) for record in found.artifacts}


def test_a_zip_and_the_directory_it_was_made_of_are_equal(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "x.txt").write_bytes(b"x\n")
    bundle = zipped(tmp_path / "b.zip", ("in/x.txt", b"x\n"))

    found = compared(folder, bundle)

    assert notes(found) == {"in/x.txt": ("equal", "")}
    assert (found.a.kind, found.b.kind) == ("directory", "bundle")


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/passwd", "a/../../b.txt", "C:\\x.txt"])
def test_a_member_that_leads_out_is_unreadable(name: str, tmp_path: Path) -> None:
    one = zipped(tmp_path / "a.zip", (name, b"x"))
    two = zipped(tmp_path / "b.zip", (name, b"y"))

    found = compared(one, two)

    (record,) = found.artifacts
    assert record.status == "unreadable"
    assert "A: has a path that" in record.note
    assert found.exit_code == 3
    assert not (tmp_path.parent / "evil.txt").exists()


def test_a_link_in_a_zip_is_not_followed(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("x.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    one = zipped(tmp_path / "a.zip", (link, b"/etc/passwd"))

    assert notes(compared(one, one))["x.txt"][1].startswith("A: is not a plain file")


def test_a_bomb_in_a_zip_is_not_unpacked(tmp_path: Path) -> None:
    one = zipped(tmp_path / "a.zip", ("x.txt", b"\0" * 30_000_000))
    info = zipfile.ZipFile(one).infolist()[0]
    lie = one.read_bytes().replace(
        info.file_size.to_bytes(4, "little"), (0xFFFFFFF0).to_bytes(4, "little")
    )
    (tmp_path / "b.zip").write_bytes(lie)

    status, note = notes(compared(one, tmp_path / "b.zip"))["x.txt"]

    assert status == "unreadable"
    assert "packed beyond belief" in note


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_unreadable(tmp_path: Path) -> None:
    one = zipped(tmp_path / "a.zip", ("x.txt", b"one"), ("x.txt", b"two"))

    assert "stands twice" in notes(compared(one, one))["x.txt"][1]


def test_a_broken_zip_is_damaged_evidence(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and then nothing")

    with pytest.raises(EvidenceError, match="no whole zip"):
        compared(tmp_path / "a.zip", tmp_path / "a.zip")


def test_a_member_with_a_wrong_checksum_is_unreadable(tmp_path: Path) -> None:
    one = zipped(tmp_path / "a.zip", ("x.txt", b"hello hello hello\n"))
    broken = one.read_bytes().replace(
        zipfile.ZipFile(one).infolist()[0].CRC.to_bytes(4, "little"), b"\0\0\0\0"
    )
    (tmp_path / "b.zip").write_bytes(broken)

    status, note = notes(compared(one, tmp_path / "b.zip"))["x.txt"]

    assert (status, "damaged" in note) == ("unreadable", True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system here")
def test_links_and_pipes_in_a_directory_are_not_read(tmp_path: Path) -> None:
    for side in ("a", "b"):
        folder = tmp_path / side
        folder.mkdir()
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "loop").symlink_to(folder, target_is_directory=True)
        os.mkfifo(folder / "pipe")

    found = notes(compared(tmp_path / "a", tmp_path / "b"))

    assert {path: status for path, (status, _) in found.items()} == {
        "link": "unreadable",
        "loop": "unreadable",
        "pipe": "unreadable",
    }
    assert "link, which is not followed" in found["loop"][1]


def test_two_files_are_a_pair_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("x\n")
    (tmp_path / "two.txt").write_text("y\n")

    found = compared(tmp_path / "one.txt", tmp_path / "two.txt")

    assert [(r.path, r.status) for r in found.artifacts] == [("two.txt", "different")]


def test_two_empty_directories_are_no_agreement(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()

    assert compared(tmp_path / "a", tmp_path / "b").exit_code == 3


def test_the_parent_of_nothing_is_no_side(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run"):
        compared(tmp_path / "gone", tmp_path)


def test_links_of_a_revision_are_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write("out/x.txt", "x\n")
    (project.path / "out" / "link").symlink_to("/etc/passwd")
    project.git("add", "-A")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},out/sub")
    project.git("commit", "-q", "-m", "links")

    found = notes(comparison.compare("out@HEAD", "out@HEAD", project.path))

    assert found["x.txt"] == ("equal", "")
    assert found["link"][0] == found["sub"][0] == "unreadable"
    assert "A: is a submodule" in found["sub"][1]
