"""The host's half of `orch doctor`: what it finds is true, and a check can fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import checkup, environment, processes
from orchestrator.agent.layout import Root
from tests.agent.controller import Controller


def findings(root: Path) -> dict[str, dict[str, Any]]:
    """Of a real agent on this machine, by name."""
    with Controller(root) as controller:
        told = controller.ask("checkup", "checkup")
    return {finding["name"]: finding for finding in told["findings"]}


def test_every_check_says_something_about_this_machine(tmp_path: Path) -> None:
    found = findings(tmp_path)

    names = ["python", "bash", "disk", "file system", "detaching", "process trees", "gpus"]
    assert list(found) == names
    assert all(f["level"] in ("ok", "warning", "error") and f["text"] for f in found.values())
    assert found["process trees"]["level"] == "ok", found["process trees"]
    assert "control group" in found["process trees"]["text"]


def test_an_escaped_process_that_cannot_be_found_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "become_subreaper", lambda: True)
    monkeypatch.setattr(processes, "members", lambda mark, strangers=(): {})

    try:
        finding = checkup._subreaper(Root.at(str(tmp_path)))
    finally:
        monkeypatch.undo()
        mark = f"doctor/{os.getpid()}"
        processes.send(processes.marked(mark), 9)

    assert (finding["level"], finding["text"]) == (
        "error",
        "a process that left its session was not found",
    )


class TestGpus:
    def left(
        self, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], *pids: Any
    ) -> dict[str, str]:
        gpus = [
            {"index": i, "uuid": f"GPU-{i}", "name": "H200", "foreign_pids": p}
            for i, p in enumerate(pids)
        ]
        monkeypatch.setattr(environment, "visible_gpus", lambda deadline_s: gpus)
        return checkup._gpus(env)

    def test_those_that_a_step_would_not_be_given_are_not_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = self.left(monkeypatch, {"CUDA_VISIBLE_DEVICES": "1"}, [7], [])
        none = self.left(monkeypatch, {"CUDA_VISIBLE_DEVICES": ""}, [], [])

        assert (one["level"], one["text"][:14]) == ("ok", "1 GPUs (H200),")
        assert one["text"].endswith("of 2: this host with CUDA_VISIBLE_DEVICES=1 leaves no more")
        assert none["level"] == "warning"
        assert none["text"].startswith("this host with CUDA_VISIBLE_DEVICES= shows no GPU")

    def test_free_ones_are_fine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.left(monkeypatch, {}, [], [])["level"] == "ok"

    @pytest.mark.parametrize(
        ("pids", "said"),
        [(([], [7]), "others use GPU 1"), (([], None), "nobody can tell who uses GPU 1")],
    )
    def test_ones_that_others_use_or_may_use_are_a_warning(
        self, monkeypatch: pytest.MonkeyPatch, pids: tuple[Any, ...], said: str
    ) -> None:
        finding = self.left(monkeypatch, {}, *pids)

        assert finding["level"] == "warning"
        assert said in finding["text"]


class TestDetaching:
    @pytest.fixture
    def logind_kills(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        """A logind that ends what a user leaves; returns its directory of lingering users."""
        busctl = tmp_path / "bin" / "busctl"
        busctl.parent.mkdir()
        busctl.write_text("#!/bin/sh\necho b true\n", "ascii")
        busctl.chmod(0o755)
        monkeypatch.setenv("PATH", f"{busctl.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("USER", raising=False)
        monkeypatch.setattr(checkup, "LINGER", str(tmp_path / "linger"))
        (tmp_path / "linger").mkdir()
        return tmp_path / "linger"

    def test_a_run_that_would_die_at_logout_is_an_error(
        self, tmp_path: Path, logind_kills: Path
    ) -> None:
        """Also where no variable tells who we are, as in a bare ssh command."""
        (logind_kills / "somebody-else").touch()

        finding = checkup._detaching(Root.at(str(tmp_path)))

        assert (finding["level"], finding["fix"]) == ("error", "loginctl enable-linger")

    def test_a_user_who_lingers_is_fine(self, tmp_path: Path, logind_kills: Path) -> None:
        name = checkup.pwd.getpwuid(os.getuid()).pw_name
        (logind_kills / name).touch()

        assert checkup._detaching(Root.at(str(tmp_path)))["level"] == "ok"
