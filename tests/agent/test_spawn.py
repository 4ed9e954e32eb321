"""Starting a program: what it inherits, and what is told when it cannot be started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchestrator.agent.signals import signal_name
from orchestrator.agent.spawn import SpawnError, spawn


def output_of(argv: list[str], folder: Path, **env: str) -> str:
    """Start a program and wait for it; returns what it printed."""
    read_end, write_end = os.pipe()
    try:
        pid = spawn(argv, {"PATH": os.environ["PATH"], **env}, str(folder), write_end)
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as output:
        said = output.read().decode("utf-8", "surrogateescape")
    os.waitpid(pid, 0)
    return said


class TestInherited:
    def test_its_own_session_and_group(self, tmp_path: Path) -> None:
        said = output_of(["sh", "-c", "echo $$; ps -o sid=,pgid= -p $$"], tmp_path)

        assert len(set(said.split())) == 1

    def test_exactly_the_variables_given(self, tmp_path: Path) -> None:
        said = output_of(["env"], tmp_path, ODD="line\nbreak \udcff")

        assert set(said.split("\n")) - {""} == {
            f"PATH={os.environ['PATH']}",
            "ODD=line",
            "break \udcff",
        }

    def test_the_program_is_looked_for_on_the_given_path(self, tmp_path: Path) -> None:
        tool = tmp_path / "bin" / "tool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho found\n", "ascii")
        tool.chmod(0o755)

        assert (
            output_of(["tool"], tmp_path, PATH=f"{tool.parent}:{os.environ['PATH']}") == "found\n"
        )


class TestRefused:
    @pytest.mark.parametrize("argv", [["no-such-program"], ["/no/such"], ["/etc/passwd"], ["/etc"]])
    def test_what_cannot_be_executed(self, tmp_path: Path, argv: list[str]) -> None:
        with pytest.raises(SpawnError, match=r"No such file|Permission denied"):
            output_of(argv, tmp_path)

    def test_a_directory_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SpawnError, match=r"No such file or directory: '.*/nowhere'"):
            output_of(["true"], tmp_path / "nowhere")

    def test_a_variable_that_no_program_could_have(self, tmp_path: Path) -> None:
        with pytest.raises(SpawnError, match=r".+"):
            output_of(["true"], tmp_path, **{"A=B": "x"})

    def test_an_argument_with_a_nul(self, tmp_path: Path) -> None:
        with pytest.raises(SpawnError, match="null"):
            output_of(["echo", "a\0b"], tmp_path)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGTERM, "TERM"),
        (signal.SIGKILL, "KILL"),
        (signal.SIGRTMIN, "RTMIN"),
        (signal.SIGRTMIN + 6, "RTMIN+6"),
        (200, "RTMIN+166"),
    ],
)
def test_every_signal_has_a_name(number: int, name: str) -> None:
    assert signal_name(number) == name
