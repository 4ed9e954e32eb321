"""Paths that every laptop can hold, and manifests that cannot lie about them."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent import manifest
from orchestrator.agent.manifest import Manifest, Member, Places

HASH = "0" * 64
# Any name a Linux file system can hold.
LINUX_NAMES = st.binary(min_size=1, max_size=255).map(
    lambda raw: os.fsdecode(raw.replace(b"\0", b"x").replace(b"/", b"x"))
)
LINUX_PATHS = st.lists(LINUX_NAMES.filter(lambda n: n not in (".", "..")), min_size=1, max_size=6)


class TestManifest:
    @given(st.lists(st.text(max_size=20), max_size=5, unique=True), st.integers(0, 2**50))
    def test_is_read_back_as_it_was_written(self, names: list[str], size: int) -> None:
        places = Places()
        paths = [places.take(name or "x") for name in names]
        written = Manifest("run", tuple(Member(p, size, HASH, 0o644) for p in paths))

        assert Manifest.from_json(written.to_json()) == written

    def test_of_another_schema_is_refused(self) -> None:
        text = Manifest("run", (), schema=2).to_json()

        with pytest.raises(ValueError, match="manifest of schema 2, not 1"):
            Manifest.from_json(text)

    def test_with_an_unsafe_path_is_refused(self) -> None:
        text = Manifest("run", (Member("../x", 0, HASH, 0o644),)).to_json()

        with pytest.raises(ValueError, match=r"the path '\.\./x' has an empty part"):
            Manifest.from_json(text)


class TestPortablePath:
    @pytest.mark.parametrize(
        "path",
        ["a", "a/b.txt", "steps/s-1/files/ü ä.json", ".hidden/x", "a b", "100%", "~x", "conx.txt"],
    )
    def test_leaves_a_good_one_as_it_is(self, path: str) -> None:
        assert manifest.portable_path(path) == path

    @pytest.mark.parametrize(
        ("path", "portable"),
        [
            ("time 12:30.log", "time%2012%3A30.log"),
            ("a\\b", "a%5Cb"),
            ("what?", "what%3F"),
            ("line\nbreak", "line%0Abreak"),
            ("\udcff\udcfe", "%FF%FE"),
            ("end.", "end%2E"),
            ("end ", "end%20"),
            ("aux", "_aux"),
            ("nul.txt", "_nul.txt"),
            ("ok/a:b/also ok", "ok/a%3Ab/also ok"),
        ],
    )
    def test_encodes_what_some_file_system_cannot_hold(self, path: str, portable: str) -> None:
        assert manifest.portable_path(path) == portable

    def test_keeps_long_names_apart_by_a_hash(self) -> None:
        one, other = "ü" * 120 + "?1", "ü" * 120 + "?2"

        assert manifest.portable_path(one) != manifest.portable_path(other)

    @given(LINUX_PATHS)
    def test_is_safe_for_any_name_and_stays_as_it_is_the_second_time(
        self, parts: list[str]
    ) -> None:
        portable = manifest.portable_path("/".join(parts))

        assert manifest.path_problem(portable) == ""
        assert manifest.portable_path(portable) == portable

    def test_is_safe_for_the_longest_path_there_is(self) -> None:
        path = "/".join([os.fsdecode(b"\xff" * 255)] * 15 + ["name.json"])

        portable = manifest.portable_path(path)

        assert manifest.path_problem(portable) == ""
        assert portable.endswith("/name.json")


class TestPlaces:
    @pytest.mark.parametrize(
        ("paths", "places"),
        [
            (["a", "A"], ["a", "A~2"]),
            (["a", "A", "a~2"], ["a", "A~2", "a~2~2"]),
            (["a:b", "a%3Ab"], ["a%3Ab", "a%3Ab~2"]),
            (["out", "OUT/x", "Out/y"], ["out", "OUT~2/x", "Out~2/y"]),
            (["out/x", "OUT"], ["out/x", "OUT~2"]),
            (["é", "e\u0301"], ["é", "e\u0301~2"]),
            (["a/x", "A/y"], ["a/x", "A/y"]),
        ],
    )
    def test_gives_every_file_a_place_of_its_own(self, paths: list[str], places: list[str]) -> None:
        taken = Places()

        assert [taken.take(path) for path in paths] == places

    @given(st.lists(LINUX_PATHS.map("/".join), max_size=8, unique=True))
    def test_whatever_the_files_are_called_the_manifest_is_good(self, paths: list[str]) -> None:
        places = Places()
        members = tuple(Member(places.take(path), 0, HASH, 0o644) for path in paths)

        assert Manifest.from_json(Manifest("run", members).to_json()).members == members

    @given(
        st.lists(st.sampled_from(["a", "A", "b", "é", "e\u0301", "a~2"]), min_size=1, max_size=3)
    )
    def test_names_that_look_alike_never_meet(self, parts: list[str]) -> None:
        places = Places()
        paths = ["/".join(parts), "/".join(parts).swapcase(), *parts]

        taken = [places.take(path) for path in paths]

        folded = {unicodedata.normalize("NFC", path).casefold() for path in taken}
        assert len(folded) == len(paths)
