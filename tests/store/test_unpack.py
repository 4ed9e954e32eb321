"""Bundles from a machine nobody trusts: every way to lie ends in an error and an empty place."""

from __future__ import annotations

import json
import os
import stat
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.agent import manifest
from orchestrator.errors import EvidenceError
from orchestrator.store import unpack
from tests.store.bundles import RUN_ID, Zip, honest


def refused(bundle: Path, target: Path, words: str) -> None:
    """Neither way of reading a bundle accepts it, and nothing is left where it would lie."""
    with pytest.raises(EvidenceError, match=words):
        unpack.check_members(bundle)
    with pytest.raises(EvidenceError, match=words):
        unpack.unpack(bundle, target)
    assert [path for path in target.parent.iterdir() if path != bundle] == []


class TestHonestBundles:
    def test_files_appear_with_their_content_and_the_manifest(self, tmp_path: Path) -> None:
        made = honest([("steps/a/files/ü b.txt", b"\0\xff"), ("steps/a/empty", b"")])
        bundle = made.write(tmp_path / "bundle.zip")

        contents = unpack.unpack(bundle, tmp_path / "evidence")

        found = {
            path.relative_to(tmp_path / "evidence").as_posix(): path.read_bytes()
            for path in (tmp_path / "evidence").rglob("*")
            if path.is_file()
        }
        assert found == {
            "steps/a/log": b"hello\n" * 100,
            "plan.json": b"{}",
            "steps/a/files/ü b.txt": b"\0\xff",
            "steps/a/empty": b"",
            "manifest.json": made.manifest(),
        }
        assert contents.run_id == RUN_ID
        assert unpack.check_members(bundle) == contents

    def test_the_executable_bit_and_no_other_comes_along(self, tmp_path: Path) -> None:
        made = Zip().add("tool", b"#!/bin/sh\n", mode=0o6777).add("text", b"x", mode=0o666)
        bundle = made.write(tmp_path / "bundle.zip")

        unpack.unpack(bundle, tmp_path / "evidence")

        tool = stat.S_IMODE((tmp_path / "evidence/tool").stat().st_mode)
        assert tool == 0o755
        assert not (tmp_path / "evidence/text").stat().st_mode & 0o111

    def test_an_empty_one(self, tmp_path: Path) -> None:
        bundle = Zip().write(tmp_path / "bundle.zip")

        assert unpack.unpack(bundle, tmp_path / "evidence").members == ()

    def test_a_log_of_one_repeated_line_is_no_bomb(self, tmp_path: Path) -> None:
        bundle = Zip().add("log", b"." * 8_000_000).write(tmp_path / "bundle.zip")

        unpack.unpack(bundle, tmp_path / "evidence")

        assert (tmp_path / "evidence/log").stat().st_size == 8_000_000

    def test_what_is_there_already_stays_as_it_is(self, tmp_path: Path) -> None:
        bundle = honest().write(tmp_path / "bundle.zip")
        (tmp_path / "evidence").mkdir()
        (tmp_path / "evidence/mine").write_text("mine", "ascii")

        with pytest.raises(EvidenceError, match="is there already"):
            unpack.unpack(bundle, tmp_path / "evidence")

        assert [p.name for p in (tmp_path / "evidence").iterdir()] == ["mine"]


UNSAFE = [
    "../evil",
    "a/../../evil",
    "a/..",
    "/etc/evil",
    "//server/share",
    "a//b",
    "./a",
    "a/.",
    "..\\evil",
    "a\\..\\..\\evil",
    "C:/evil",
    "C:evil",
    "file:stream",
    "NUL",
    "con.txt",
    "a/com1/b",
    "LPT9.log",
    "name.",
    "name ",
    "a /b",
    "tab\tname",
    "line\nbreak",
    "\x7f",
    "question?",
    "star*",
    'quote"',
    "less<more>",
    "pipe|",
    "x" * 256,
    "x/" * 600 + "x",
]


class TestNames:
    @pytest.mark.parametrize("name", UNSAFE)
    def test_an_unsafe_one_is_refused(self, tmp_path: Path, name: str) -> None:
        bundle = Zip().add(name, b"evil").write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "the path .* (is|has|names|stands)")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("same", "same"),
            ("Same", "same"),
            ("a/B/c", "A/b/C"),
            ("stra\u00dfe", "STRASSE"),
            ("\u00e9", "e\u0301"),
        ],
    )
    def test_two_names_of_one_file_are_refused(self, tmp_path: Path, one: str, other: str) -> None:
        made = Zip().add(one, b"1").add(other, b"2")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            bundle = made.write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "twice")

    @pytest.mark.parametrize(("one", "other"), [("a", "a/b"), ("A/b", "a"), ("x/y", "x/Y/z")])
    def test_a_name_that_is_a_file_and_a_directory_is_refused(
        self, tmp_path: Path, one: str, other: str
    ) -> None:
        bundle = Zip().add(one, b"1").add(other, b"2").write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "is a file and a directory")

    def test_a_second_manifest_is_refused(self, tmp_path: Path) -> None:
        made = Zip().add("manifest.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            bundle = made.write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "twice")

    def test_a_manifest_that_lists_itself_in_other_letters_is_refused(self, tmp_path: Path) -> None:
        bundle = Zip().add("Manifest.JSON", b"{}").write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "twice")

    def test_a_name_cut_by_a_nul_is_refused(self, tmp_path: Path) -> None:
        bundle = Zip().add("name_evil", b"x").write(tmp_path / "bundle.zip")
        bundle.write_bytes(bundle.read_bytes().replace(b"name_evil", b"name\0evil"))

        refused(bundle, tmp_path / "evidence", "differ|damaged|twice")


class TestKinds:
    @pytest.mark.parametrize(
        "kind",
        [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR],
    )
    def test_only_plain_files_are_taken(self, tmp_path: Path, kind: int) -> None:
        bundle = Zip().add("x", b"/etc/passwd", kind=kind).write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "`x` in .* is not a plain file")

    def test_a_directory_entry_is_refused(self, tmp_path: Path) -> None:
        bundle = Zip().add("folder/", b"", claim=False).write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "differ in")

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_only_the_two_usual_ways_of_packing_are_unpacked(
        self, tmp_path: Path, method: int
    ) -> None:
        bundle = Zip().add("x", b"x" * 100, method=method).write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "packed in a way")

    def test_an_encrypted_member_is_refused(self, tmp_path: Path) -> None:
        bundle = Zip().add("secret", b"x" * 100).write(tmp_path / "bundle.zip")
        set_flag(bundle, "secret", 1)

        refused(bundle, tmp_path / "evidence", "packed in a way")


def set_flag(bundle: Path, name: str, flag: int) -> None:
    """Set a general-purpose flag in both headers of a member."""
    raw = bytearray(bundle.read_bytes())
    local = raw.index(b"PK\x03\x04")
    central = raw.index(b"PK\x01\x02")
    assert bytes(raw[local + 30 : local + 30 + len(name)]) == name.encode("ascii")
    raw[local + 6] |= flag
    raw[central + 8] |= flag
    bundle.write_bytes(bytes(raw))


class TestBounds:
    def test_a_size_that_no_packing_reaches_is_refused(self, tmp_path: Path) -> None:
        bundle = Zip().add("bomb", b"0" * 5_000_000).write(tmp_path / "bundle.zip")
        lie_about_size(bundle, 1 << 31)

        refused(bundle, tmp_path / "evidence", "beyond belief")

    def test_more_than_the_allowed_bytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundle = honest().write(tmp_path / "bundle.zip")
        monkeypatch.setattr(unpack, "MAX_BYTES", 500)

        refused(bundle, tmp_path / "evidence", "unpacks to .* bytes")

    def test_more_than_the_allowed_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundle = honest().write(tmp_path / "bundle.zip")
        monkeypatch.setattr(unpack, "MAX_FILES", 2)

        refused(bundle, tmp_path / "evidence", "holds 3 files")

    def test_more_than_the_disk_has_room_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundle = honest().write(tmp_path / "bundle.zip")
        monkeypatch.setattr(unpack, "_free_bytes", lambda _: 100)

        with pytest.raises(EvidenceError, match=r"needs .*, of which 100 bytes are free"):
            unpack.unpack(bundle, tmp_path / "evidence")

        assert not (tmp_path / "evidence").exists()

    def test_members_that_share_their_bytes(self, tmp_path: Path) -> None:
        """The overlapping bomb: many entries of the directory name one packed member."""
        made = Zip().add("a", os.urandom(3000)).add("b", os.urandom(3000))
        bundle = made.write(tmp_path / "bundle.zip")
        let_the_first_cover_the_second(bundle)

        refused(bundle, tmp_path / "evidence", "share their bytes")

    def test_a_huge_manifest_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundle = honest().write(tmp_path / "bundle.zip", manifest=b" " * 10_000 + b"{}")
        monkeypatch.setattr(unpack, "MAX_MANIFEST_BYTES", 10_000)

        refused(bundle, tmp_path / "evidence", "manifest of .* is too large")

    def test_a_manifest_of_endless_brackets(self, tmp_path: Path) -> None:
        bundle = honest().write(tmp_path / "bundle.zip", manifest=b"[" * 200_000)

        refused(bundle, tmp_path / "evidence", "is not usable")


def lie_about_size(bundle: Path, size: int) -> None:
    """Claim another unpacked size for the first member in the central directory."""
    raw = bytearray(bundle.read_bytes())
    central = raw.index(b"PK\x01\x02")
    struct.pack_into("<I", raw, central + 24, size)
    bundle.write_bytes(bytes(raw))


def let_the_first_cover_the_second(bundle: Path) -> None:
    """Let the first member's packed bytes reach to the end of the second one's."""
    raw = bytearray(bundle.read_bytes())
    central = raw.index(b"PK\x01\x02")
    struct.pack_into("<I", raw, central + 20, 6200)
    bundle.write_bytes(bytes(raw))


def one_member(**lies: object) -> bytes:
    """A manifest of one member with something wrong in it."""
    member = {"path": "a", "size": 1, "sha256": "0" * 64, "mode": 0o644, **lies}
    return json.dumps({"schema": 1, "run_id": "x", "members": [member]}).encode("ascii")


class TestContent:
    @pytest.mark.parametrize(
        "lie", [{"size": 5}, {"size": 7}, {"sha256": "0" * 64}, {"size": 0, "sha256": "0" * 64}]
    )
    def test_another_size_or_hash_than_promised(
        self, tmp_path: Path, lie: dict[str, object]
    ) -> None:
        bundle = honest().add("x", b"123456", **lie).write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", "`x` is not what the manifest says")

    def test_a_member_that_is_missing(self, tmp_path: Path) -> None:
        bundle = honest().claim("steps/b/log").write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", r"differ in \['steps/b/log'\]")

    def test_a_member_that_nobody_announced(self, tmp_path: Path) -> None:
        bundle = honest().add("extra", b"x", claim=False).write(tmp_path / "bundle.zip")

        refused(bundle, tmp_path / "evidence", r"differ in \['extra'\]")

    def test_no_manifest(self, tmp_path: Path) -> None:
        bundle = tmp_path / "bundle.zip"
        with zipfile.ZipFile(bundle, "w") as archive:
            archive.writestr("x", b"x")

        refused(bundle, tmp_path / "evidence", "has no manifest.json")

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"not json",
            b"\xff\xfe",
            b"null",
            b"[]",
            b'"text"',
            b"{}",
            b'{"schema": 2, "run_id": "x", "members": []}',
            b'{"schema": 1, "run_id": "x", "members": [1]}',
            b'{"schema": 1, "run_id": "x", "members": {"a": 1}}',
            b'{"schema": 1, "run_id": "x", "members": [{"path": 5}]}',
            one_member(size=-1),
            one_member(size=1.5),
            one_member(size=True),
            one_member(path=["a"]),
            one_member(sha256=5),
            one_member(mode="0644"),
        ],
    )
    def test_a_damaged_manifest(self, tmp_path: Path, text: bytes) -> None:
        bundle = Zip().write(tmp_path / "bundle.zip", manifest=text)

        refused(bundle, tmp_path / "evidence", "the manifest of .* is not usable")

    def test_a_file_that_is_no_zip(self, tmp_path: Path) -> None:
        bundle = tmp_path / "bundle.zip"
        bundle.write_bytes(b"no zip at all")

        refused(bundle, tmp_path / "evidence", "is damaged")

    def test_no_file(self, tmp_path: Path) -> None:
        refused(tmp_path / "bundle.zip", tmp_path / "evidence", "bundle.zip")

    def test_a_half_zip(self, tmp_path: Path) -> None:
        bundle = honest().write(tmp_path / "bundle.zip")
        bundle.write_bytes(bundle.read_bytes()[:-50])

        refused(bundle, tmp_path / "evidence", "is damaged")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    made = honest([("steps/b/files/data.bin", bytes(range(256)) * 20)])
    return folder, made.write(folder / "sound.zip").read_bytes()


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_no_damaged_byte_passes(sound: tuple[Path, bytes], data: st.DataObject) -> None:
    """Whatever byte is changed: an EvidenceError, or contents that are what was promised."""
    folder, raw = sound
    place = data.draw(st.integers(0, len(raw) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda v: v != raw[place]))
    damaged = folder / "damaged.zip"
    damaged.write_bytes(raw[:place] + bytes([value]) + raw[place + 1 :])

    try:
        contents = unpack.check_members(damaged)
    except EvidenceError:
        return

    original = folder / "sound.zip"
    assert contents.members == unpack.check_members(original).members


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "C:", "con", "x y", "é"]), max_size=5))
def test_a_path_that_passes_stays_below_its_top(parts: list[str]) -> None:
    path = "/".join(parts)

    if not manifest.path_problem(path):
        joined = Path("/top").joinpath(*path.split("/"))
        assert joined.is_relative_to("/top")
        assert ".." not in joined.parts
