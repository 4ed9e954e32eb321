"""Entering the declared environment: interpreters, venvs, conda, modules, set-up lines."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv as venvs
from pathlib import Path

import pytest

from orchestrator.agent import activation
from orchestrator.agent.activation import ActivationError, environment
from orchestrator.agent.plan import Activation
from tests.agent.controller import wait_until


def base(tmp_path: Path, **more: str) -> dict[str, str]:
    """What an agent is started with; nothing of the user's own conda or modules."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), **more}


def enter(tmp_path: Path, wanted: Activation, **env: str) -> dict[str, str]:
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    return environment(wanted, base(tmp_path, **env), str(folder))


def failure(tmp_path: Path, wanted: Activation, **env: str) -> str:
    with pytest.raises(ActivationError) as caught:
        enter(tmp_path, wanted, **env)
    return str(caught.value)


def run(env: dict[str, str], *argv: str) -> str:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


class TestNothingDeclared:
    def test_the_agents_own_environment_goes_on(self, tmp_path: Path) -> None:
        env = enter(tmp_path, Activation(env={"X": "1"}), Y="2")

        assert env == base(tmp_path, X="1", Y="2")

    def test_variables_that_would_bend_python_do_not(self, tmp_path: Path) -> None:
        env = enter(tmp_path, Activation(), PYTHONHOME="/x", PYTHONSTARTUP="/y")

        assert "PYTHONHOME" not in env
        assert "PYTHONSTARTUP" not in env


class TestPython:
    def test_python_means_the_declared_one_whatever_its_file_is_called(
        self, tmp_path: Path
    ) -> None:
        odd = program(
            tmp_path / "my pythons/python3.99",
            f'#!/bin/sh\necho odd "$@"; exec "{sys.executable}" "$@"\n',
        )

        env = enter(tmp_path, Activation(python=str(odd)))

        for name in ("python", "python3"):
            assert run(env, name, "-c", "print('hi')") == "odd -c print('hi')\nhi"

    def test_its_programs_are_found_too(self, tmp_path: Path) -> None:
        program(tmp_path / "bin/tool", "#!/bin/sh\necho tool\n")
        (tmp_path / "bin/python3").symlink_to(sys.executable)

        env = enter(tmp_path, Activation(python=str(tmp_path / "bin/python3")))

        assert run(env, "tool") == "tool"

    def test_it_finds_its_own_packages(self, tmp_path: Path) -> None:
        """A link to an interpreter would lose them: they are looked for beside the file."""
        venvs.create(tmp_path / "env", with_pip=False)
        site = next((tmp_path / "env").glob("lib/python*/site-packages"))
        (site / "only_here.py").write_text("x = 5\n", "ascii")

        env = enter(tmp_path, Activation(python=str(tmp_path / "env/bin/python")))

        assert run(env, "python3", "-c", "import only_here; print(only_here.x)") == "5"

    def test_a_home_directory_may_be_meant(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        program(tmp_path / "py/bin/python3", "#!/bin/sh\necho mine\n")

        env = enter(tmp_path, Activation(python="~/py/bin/python3"))

        assert run(env, "python") == "mine"

    @pytest.mark.parametrize("what", ["missing", "no program", "folder"])
    def test_one_that_cannot_be_run_is_told(self, tmp_path: Path, what: str) -> None:
        path = tmp_path / "python3"
        if what == "no program":
            path.write_text("x", "ascii")
        if what == "folder":
            path.mkdir()

        said = failure(tmp_path, Activation(python=str(path)))

        assert said == f"`python: {path}` is not an executable file on this host"


class TestVenv:
    def test_its_python_and_programs_come_first(self, tmp_path: Path) -> None:
        venvs.create(tmp_path / "my env", with_pip=False)

        env = enter(tmp_path, Activation(venv=str(tmp_path / "my env")))

        assert run(env, "python", "-c", "import sys; print(sys.prefix)") == str(tmp_path / "my env")
        assert env["VIRTUAL_ENV"] == str(tmp_path / "my env")

    def test_one_that_is_none_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "env").mkdir()

        said = failure(tmp_path, Activation(venv=str(tmp_path / "env")))

        assert said == f"`venv: {tmp_path / 'env'}` has no bin/python on this host"


class TestSetup:
    def test_what_it_exports_is_there_and_what_it_does_not_is_not(self, tmp_path: Path) -> None:
        env = enter(
            tmp_path,
            Activation(setup="export A='two words'\nexport B=$A!\nC=local\ncd /\n"),
            KEPT="yes",
        )

        assert (env["A"], env["B"], env["KEPT"]) == ("two words", "two words!", "yes")
        assert not {"C", "OLDPWD", "SHLVL", "ORCH_SETUP", "ORCH_DUMP", "_"} & set(env)

    @pytest.mark.parametrize(
        "value", ["line\nbreak", "quo'te\"s", "ü", "\udcff", "$HOME `x`", "a=b"]
    )
    def test_any_value_comes_through(self, tmp_path: Path, value: str) -> None:
        env = enter(tmp_path, Activation(setup="export COPY=$ODD\n"), ODD=value)

        assert env["COPY"] == value

    def test_the_declared_variables_win(self, tmp_path: Path) -> None:
        env = enter(tmp_path, Activation(setup="export X=setup\n", env={"X": "declared"}))

        assert env["X"] == "declared"

    @pytest.mark.parametrize(
        ("setup", "said"),
        [
            ("echo trouble >&2\nfalse\n", "`setup:` ended with exit code 1: trouble"),
            ("exit 7", "`setup:` ended with exit code 7: no output"),
            ("no_such_program_here", "no_such_program_here"),
            ("false | true", "`setup:` ended with exit code 1"),
            ("echo one; echo two; echo three; echo four; false", "two / three / four"),
            ("if then", "syntax error"),
            ("kill -9 $$", "`setup:` ended with signal KILL"),
            ("exit 0", "`setup:` ended the shell"),
            ("exec true", "`setup:` ended the shell"),
        ],
    )
    def test_one_that_fails_is_told_with_its_last_words(
        self, tmp_path: Path, setup: str, said: str
    ) -> None:
        assert said in failure(tmp_path, Activation(setup=setup))

    def test_one_that_hangs_is_ended_with_all_it_started(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(activation, "DEADLINE_S", 0.3)
        pid_file = tmp_path / "pid"
        begun = time.monotonic()

        said = failure(tmp_path, Activation(setup=f"sleep 60 & echo $! > {pid_file}; wait"))

        assert "did not end within" in said
        assert time.monotonic() - begun < 10
        pid = int(pid_file.read_text("ascii"))
        wait_until(lambda: not is_running(pid), "the killed process to be gone")

    def test_the_users_start_up_files_are_not_read(self, tmp_path: Path) -> None:
        """bash reads ~/.bashrc where it thinks that sshd has started it."""
        (tmp_path / "home").mkdir()
        (tmp_path / "home/.bashrc").write_text("export FROM_BASHRC=yes\n", "ascii")

        env = enter(
            tmp_path,
            Activation(setup="export X=1"),
            SSH_CLIENT="10.0.0.1 5 22",
            SSH_CONNECTION="10.0.0.1 5 10.0.0.2 22",
        )

        assert "FROM_BASHRC" not in env

    def test_its_output_is_kept_in_the_log(self, tmp_path: Path) -> None:
        enter(tmp_path, Activation(setup="echo hello; echo there >&2"))

        assert (tmp_path / "run/activation.log").read_text("utf-8") == "hello\nthere\n"

    def test_no_file_of_ours_is_left_but_the_log(self, tmp_path: Path) -> None:
        enter(tmp_path, Activation(setup="true"))

        assert [p.name for p in (tmp_path / "run").iterdir()] == ["activation.log"]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


FAKE_CONDA = r"""#!/bin/sh
[ "$1 $2" = "shell.posix hook" ] || { echo "conda: $*" >&2; exit 1; }
cat <<'END'
conda() {
  [ "$1" = activate ] || return 1
  case $2 in
    good*|*/good) export CONDA_PREFIX=/envs/$2 PATH=/envs/$2/bin:$PATH;;
    *) echo "EnvironmentNameNotFound: $2" >&2; return 1;;
  esac
}
END
"""


class TestConda:
    @pytest.mark.parametrize("name", ["good", "good env", "~/envs/good"])
    def test_is_entered_by_its_own_hook(self, tmp_path: Path, name: str) -> None:
        conda = program(tmp_path / "conda dir/conda", FAKE_CONDA)

        env = enter(tmp_path, Activation(conda=name), CONDA_EXE=str(conda))

        meant = str(Path(name).expanduser())
        assert env["CONDA_PREFIX"] == f"/envs/{meant}"
        assert env["PATH"].startswith(f"/envs/{meant}/bin:")

    @pytest.mark.parametrize("place", ["bin/conda", "home/miniforge3/bin/conda"])
    def test_is_found_on_the_path_and_at_its_usual_places(self, tmp_path: Path, place: str) -> None:
        program(tmp_path / place, FAKE_CONDA)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

        env = enter(tmp_path, Activation(conda="good"), PATH=path)

        assert env["CONDA_PREFIX"] == "/envs/good"

    def test_an_environment_that_does_not_exist_is_told(self, tmp_path: Path) -> None:
        conda = program(tmp_path / "conda", FAKE_CONDA)

        said = failure(tmp_path, Activation(conda="missing"), CONDA_EXE=str(conda))

        assert said == "`conda:` ended with exit code 92: EnvironmentNameNotFound: missing"

    def test_no_conda_is_told(self, tmp_path: Path) -> None:
        said = failure(tmp_path, Activation(conda="x"), PATH="/usr/bin:/bin")

        assert "no conda on PATH nor at its usual places" in said

    def test_set_up_lines_come_after_it(self, tmp_path: Path) -> None:
        conda = program(tmp_path / "conda", FAKE_CONDA)

        wanted = Activation(conda="good", setup="export SEEN=$CONDA_PREFIX")
        env = enter(tmp_path, wanted, CONDA_EXE=str(conda))

        assert env["SEEN"] == "/envs/good"


FAKE_MODULES = r"""
module() {
  [ "$1" = load ] || return 1
  shift
  for name in "$@"; do
    case $name in
      cuda/*) export CUDA_HOME="/opt/$name" LOADED="$LOADED[$name]";;
      *) echo "Unable to locate a modulefile for '$name'" >&2; return 1;;
    esac
  done
}
"""


class TestModules:
    def test_are_loaded_in_their_order(self, tmp_path: Path) -> None:
        init = program(tmp_path / "modules/init/bash", FAKE_MODULES)

        env = enter(
            tmp_path,
            Activation(modules=["cuda/12.4", "cuda/with blank"]),
            MODULESHOME=str(init.parent.parent),
        )

        assert env["LOADED"] == "[cuda/12.4][cuda/with blank]"

    def test_one_that_is_missing_is_told(self, tmp_path: Path) -> None:
        init = program(tmp_path / "modules/init/bash", FAKE_MODULES)

        said = failure(tmp_path, Activation(modules=["nope"]), MODULESHOME=str(init.parent.parent))

        assert said.startswith("`modules:` ended with exit code 94: Unable to locate")

    def test_a_host_without_modules_is_told(self, tmp_path: Path) -> None:
        said = failure(tmp_path, Activation(modules=["cuda"]), MODULESHOME=str(tmp_path))

        assert "no environment modules here" in said
