"""Build caches: of this run alone, wiped, or kept; and never wiped under another run."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.agent import caches
from orchestrator.agent.caches import CacheBusy, Caches
from orchestrator.agent.layout import Root

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.at(str(tmp_path / "root"))


def prepare(root: Root, mode: str, run: str = "run-1", experiment: str = "exp") -> Caches:
    return caches.prepare(mode, root, root.run(run), experiment)


def close(*held: Caches) -> None:
    for one in held:
        assert one.hold is not None
        one.hold.close()


@contextmanager
def another_run(root: Root, mode: str) -> Iterator[None]:
    """Another process that holds the caches of the experiment."""
    program = """
import sys
from orchestrator.agent import caches
from orchestrator.agent.layout import Root
root = Root.at(sys.argv[1])
held = caches.prepare(sys.argv[2], root, root.run("run-other"), "exp")
print("held", flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, root.path, mode],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate(timeout=30)


class TestIsolated:
    def test_every_tool_has_a_fresh_directory_in_the_run(self, root: Root) -> None:
        made = prepare(root, "isolated")

        assert set(made.variables) == set(caches.VARIABLES)
        for path in made.variables.values():
            assert Path(path).is_dir()
            assert Path(path).is_relative_to(root.run("run-1").path)
            assert list(Path(path).iterdir()) == []
        assert (made.state, made.facts["mode"]) == ("cold", "isolated")
        assert made.hold is None

    def test_two_runs_share_nothing(self, root: Root) -> None:
        one, other = prepare(root, "isolated"), prepare(root, "isolated", "run-2")

        assert not set(one.variables.values()) & set(other.variables.values())


class TestKept:
    def test_the_first_run_is_cold_and_the_next_one_warm(self, root: Root) -> None:
        first = prepare(root, "kept")
        (Path(first.variables["TRITON_CACHE_DIR"]) / "kernel").write_text("built", "ascii")
        close(first)

        second = prepare(root, "kept", "run-2")
        close(second)

        assert (first.state, second.state) == ("cold", "warm")
        assert first.variables == second.variables

    def test_experiments_do_not_share(self, root: Root) -> None:
        one, other = prepare(root, "kept"), prepare(root, "kept", "run-2", "other")
        close(one, other)

        assert not set(one.variables.values()) & set(other.variables.values())

    def test_a_lock_that_a_killed_build_left_is_removed_and_told(self, root: Root) -> None:
        """torch waits for such a file for ever; nobody can hold it while nobody else is here."""
        first = prepare(root, "kept")
        extensions = Path(first.variables["TORCH_EXTENSIONS_DIR"])
        (extensions / "py311_cu128/my_ext").mkdir(parents=True)
        (extensions / "py311_cu128/my_ext/lock").touch()
        (extensions / "py311_cu128/my_ext/my_ext.so").touch()
        (extensions / "folder_named/lock").mkdir(parents=True)
        (Path(first.variables["TRITON_CACHE_DIR"]) / "lock").touch()
        close(first)

        second = prepare(root, "kept", "run-2")
        close(second)

        assert second.facts["stale_locks_removed"] == ["torch_extensions/py311_cu128/my_ext/lock"]
        assert not (extensions / "py311_cu128/my_ext/lock").exists()
        assert (extensions / "py311_cu128/my_ext/my_ext.so").exists()
        assert (Path(first.variables["TRITON_CACHE_DIR"]) / "lock").exists()

    def test_a_lock_is_left_alone_while_another_run_may_hold_it(self, root: Root) -> None:
        with another_run(root, "kept"):
            lock = Path(root.caches, "exp", "torch_extensions", "lock")
            lock.touch()

            made = prepare(root, "kept")
            close(made)

            assert lock.exists()
            assert made.facts["stale_locks_removed"] == []


class TestCleared:
    def test_what_was_kept_is_gone(self, root: Root) -> None:
        first = prepare(root, "kept")
        (Path(first.variables["TRITON_CACHE_DIR"]) / "kernel").write_text("built", "ascii")
        close(first)

        second = prepare(root, "cleared", "run-2")
        close(second)

        assert second.state == "wiped"
        assert second.variables == first.variables
        assert list(Path(second.variables["TRITON_CACHE_DIR"]).iterdir()) == []

    @pytest.mark.parametrize("mode", ["kept", "cleared"])
    def test_nothing_is_wiped_under_another_run(self, root: Root, mode: str) -> None:
        with another_run(root, mode):
            kernel = Path(root.caches, "exp", "triton", "kernel")
            kernel.write_text("in use", "ascii")

            with pytest.raises(CacheBusy, match="another run is using the caches of `exp`"):
                prepare(root, "cleared")

            assert kernel.read_text("ascii") == "in use"

        close(prepare(root, "cleared"))

    def test_one_that_keeps_does_not_wait_for_ever_for_one_that_wipes(
        self, root: Root, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(caches, "_SHARE_DEADLINE_S", 0.1)
        Path(root.caches, "exp").mkdir()
        with Path(root.caches, "exp.lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

            with pytest.raises(CacheBusy, match="has been wiping"):
                prepare(root, "kept")

    def test_two_that_keep_share(self, root: Root) -> None:
        with another_run(root, "kept"):
            close(prepare(root, "kept"))

    def test_the_first_one_of_all(self, root: Root) -> None:
        made = prepare(root, "cleared")
        close(made)

        assert made.state == "wiped"


class TestOverridden:
    def test_a_variable_that_the_experiment_sets_itself_makes_the_state_unknown(
        self, root: Root
    ) -> None:
        environments = [{"X": "1"}, {"TRITON_CACHE_DIR": "/shared", "OTHER": "x"}]
        named = caches.overridden_in(environments)

        made = caches.prepare("isolated", root, root.run("run-1"), "exp", named)

        assert named == ["TRITON_CACHE_DIR"]
        assert (made.state, made.facts["overridden"]) == ("unknown", named)

    def test_others_do_not(self) -> None:
        assert caches.overridden_in([{"X": "1"}, {}]) == []
