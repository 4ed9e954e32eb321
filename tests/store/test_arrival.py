"""A bundle that has arrived: put in its place, thrown away, or kept for the next time."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from orchestrator.errors import EvidenceError
from orchestrator.store import arrival, hold, rundir, unpack
from orchestrator.store.record import Bundle
from orchestrator.store.rundir import RunDir
from tests.store.bundles import RUN_ID, honest, sha256


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    """A run whose bundle has arrived."""
    made = rundir.create(tmp_path, RUN_ID)
    honest().write(made.incoming)
    return made


def announced(folder: RunDir) -> Bundle:
    size = folder.incoming.stat().st_size
    return Bundle(size=size, manifest_sha256=sha256(unpack.manifest_text(folder.incoming)))


def test_it_is_put_in_its_place(folder: RunDir) -> None:
    taken = arrival.take(folder, announced(folder))

    assert (taken.files > 0, taken.aside) == (True, None)
    assert folder.bundle.exists()
    assert not folder.incoming.exists()
    assert (folder.evidence / "manifest.json").exists()


def test_without_room_it_is_kept_for_the_next_time(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(unpack, "_free_bytes", lambda _: 0)
        with pytest.raises(EvidenceError, match="are free") as caught:
            arrival.take(folder, announced(folder))

    assert f"orch fetch {RUN_ID}" in caught.value.fix
    assert "free some disk space" in caught.value.fix
    assert arrival.take(folder, announced(folder)).files > 0


def test_a_disk_that_refuses_a_file_costs_nothing(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(27, "File too large")

    with monkeypatch.context() as full:
        full.setattr(unpack, "_copy_checked", refuse)
        with pytest.raises(EvidenceError, match="File too large") as caught:
            arrival.take(folder, announced(folder))

    assert "what arrived is kept" in caught.value.fix
    assert [path.name for path in folder.path.iterdir()] == [folder.incoming.name]
    assert arrival.take(folder, announced(folder)).files > 0


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on files on this system")
def test_a_limit_that_ends_within_a_file_is_noticed(folder: RunDir) -> None:
    """The first write below it is short and no error."""
    import resource

    honest().add("steps/a/large", b"x" * 300_000).write(folder.incoming)
    told = announced(folder)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(EvidenceError, match="File too large"):
            arrival.take(folder, told)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert arrival.take(folder, told).files > 0


@pytest.mark.parametrize("damage", ["longer", "another manifest", "no zip"])
def test_what_is_damaged_is_thrown_away(folder: RunDir, damage: str) -> None:
    told = announced(folder)
    if damage == "longer":
        folder.incoming.write_bytes(folder.incoming.read_bytes() + b"x")
    elif damage == "another manifest":
        told = told.model_copy(update={"manifest_sha256": "0" * 64})
    else:
        folder.incoming.write_bytes(b"x" * told.size)

    with pytest.raises(unpack.Damaged) as caught:
        arrival.take(folder, told)

    assert caught.value.fix == f"orch fetch {RUN_ID}"
    assert list(folder.path.iterdir()) == []


class TestHold:
    def test_one_at_a_time(self, folder: RunDir) -> None:
        with (
            hold.held(folder),
            pytest.raises(EvidenceError, match=r"another orch \(process \d+\)"),
            hold.held(folder),
        ):
            pass
        with hold.held(folder):
            assert (folder.path / ".lock").exists()

        assert not (folder.path / ".lock").exists()

    def test_it_ends_with_the_process_that_held_it(self, folder: RunDir) -> None:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_hold_and_wait, args=(folder, theirs)
        )
        process.start()
        assert ours.poll(60)
        with pytest.raises(EvidenceError, match=f"process {process.pid}"), hold.held(folder):
            pass

        process.kill()
        process.join(60)

        with hold.held(folder):
            assert (folder.path / ".lock").exists()

    def test_a_directory_that_is_gone_takes_it_along(self, folder: RunDir) -> None:
        with hold.held(folder):
            for path in folder.path.iterdir():
                path.unlink()
            folder.path.rmdir()


def _hold_and_wait(folder: RunDir, link: Connection) -> None:
    with hold.held(folder):
        link.send("held")
        link.recv()
