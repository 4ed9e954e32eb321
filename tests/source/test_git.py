"""How git is called: arguments only, a deadline, a clean environment, errors that help."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import git as git_module
from orchestrator.source.git import Git, failure, name_list, stop
from tests.conftest import Project


class TestRun:
    def test_a_failing_command_is_told_with_what_git_said(self, project: Project) -> None:
        with pytest.raises(SourceError, match=r"`git cat-file -t nothing` failed: fatal: Not a"):
            Git(project.path).run("cat-file", "-t", "nothing")

    def test_no_git_on_the_path(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(project.path))

        with pytest.raises(SourceError, match="git is not installed") as caught:
            Git(project.path).run("status")

        assert caught.value.fix == "install git"

    def test_a_git_that_hangs_is_not_waited_for(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake = project.home / "bin/git"
        fake.parent.mkdir()
        fake.write_text("#!/bin/sh\nexec sleep 60\n", "ascii")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(git_module, "DEADLINE_S", 0.2)

        with pytest.raises(SourceError, match="did not end within"):
            Git(project.path).run("status")

    def test_a_stopped_git_fails_at_once_though_its_filter_lives(self, project: Project) -> None:
        project.write(".gitattributes", "*.slow filter=slow\n")
        project.write("one.slow", "content\n")
        begun = project.home / "begun"
        project.git("config", "filter.slow.clean", f"touch '{begun}'; sleep 60")
        heard: list[SourceError] = []

        def wait() -> None:
            with pytest.raises(SourceError) as error:
                Git(project.path).run("hash-object", "one.slow")
            heard.append(error.value)

        waiting = threading.Thread(target=wait)
        waiting.start()
        end = time.monotonic() + 20
        while not begun.exists():
            assert time.monotonic() < end
            time.sleep(0.01)

        stop()
        waiting.join(timeout=20)

        assert len(heard) == 1

    def test_never_asks_a_question(self, project: Project) -> None:
        said = Git(project.path).run("var", "GIT_EDITOR", check=False)

        assert said.returncode == 0
        assert Git(project.path).text("config", "--get", "core.quotePath") == "false"

    @pytest.mark.parametrize(
        "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"]
    )
    def test_variables_of_a_hook_do_not_reach_it(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "/nowhere")
        with_index = Git(project.path, project.path / "index")

        for git in (Git(project.path), with_index):
            shown = git.text("-c", "alias.show-env=!env", "show-env")
            assert f"{name}=/nowhere" not in shown.splitlines()

    def test_the_users_own_settings_do(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "orch.test")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "yes")

        assert Git(project.path).text("config", "--get", "orch.test") == "yes"


class TestFailure:
    @pytest.mark.parametrize(
        ("said", "fix"),
        [
            ("fatal: detected dubious ownership in repository", "safe.directory"),
            ("fatal: Unable to create '.git/index.lock': File exists", "wait for it"),
            ("error: file write error: No space left on device", "disk space"),
            ("error: external filter 'nbstripout' failed", "filter"),
        ],
    )
    def test_names_the_way_out(self, said: str, fix: str) -> None:
        done = subprocess.CompletedProcess(["git"], 128, b"", said.encode())

        error = failure(["add", "-A"], done)

        assert said in error.what
        assert fix in error.fix

    def test_shows_no_more_of_a_long_command_than_helps(self) -> None:
        done = subprocess.CompletedProcess(["git"], 1, b"", b"no")

        shown = failure(["add", *["name"] * 100], done).what

        assert shown.startswith("`git add name name")
        assert len(shown) < 130


def test_name_list_is_what_git_reads_with_z(tmp_path: Path) -> None:
    assert name_list(["a b", "\udcff\n"]) == b"a b\0\xff\n\0"
