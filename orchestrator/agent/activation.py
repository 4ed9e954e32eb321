"""The environment of the steps here: an interpreter, a virtual or conda environment, modules.

What needs a shell runs once, before the first step, in one bash whose script never changes: every
value reaches it as an argument or a variable. The environment it ends with is the steps'.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, Mapping

from orchestrator.agent.plan import Activation
from orchestrator.agent.signals import signal_name

DEADLINE_S = 120.0

_SCRIPT = r"""
if [ -n "$ORCH_CONDA" ]; then
  for candidate in "$CONDA_EXE" "$(command -v conda 2>/dev/null)" \
      "$HOME"/{miniconda3,miniforge3,mambaforge,anaconda3,micromamba}/bin/conda /opt/conda/bin/conda
  do
    [ -x "$candidate" ] && break
    candidate=
  done
  [ -n "$candidate" ] || { echo "no conda on PATH nor at its usual places" >&2; exit 90; }
  eval "$("$candidate" shell.posix hook)" || exit 91
  conda activate "$ORCH_CONDA" || exit 92
fi
if [ "$#" -gt 0 ]; then
  if ! type module >/dev/null 2>&1; then
    for file in "$MODULESHOME/init/bash" /etc/profile.d/{lmod,modules,z00_lmod}.sh
    do
      [ -r "$file" ] && . "$file" && break
    done
  fi
  type module >/dev/null 2>&1 || { echo "no environment modules here" >&2; exit 93; }
  module load "$@" || exit 94
fi
set -eo pipefail
eval "$ORCH_SETUP"
"$ORCH_DUMP_PYTHON" -E -S -c '
import json, os, sys
with open(sys.argv[1], "w") as file:
    json.dump({os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in os.environ.items()}, file)
' "$ORCH_DUMP"
"""

_STAGES = {90: "conda", 91: "conda", 92: "conda", 93: "modules", 94: "modules"}
_OWN = ("ORCH_CONDA", "ORCH_SETUP", "ORCH_DUMP", "ORCH_DUMP_PYTHON", "SHLVL", "_", "OLDPWD")

# `python` and `python3` of a step mean the declared interpreter, also when its file is called
# `python3.12`: a script that starts it keeps the directory in which it looks for its packages.
_SHIM = '#!/bin/sh\nexec "$ORCH_PYTHON" "$@"\n'


class ActivationError(Exception):
    """The declared environment cannot be entered; nothing of the run can be trusted to start."""


def environment(wanted: Activation, base: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment variables of every step.

    Args:
        base: the environment the agent itself was started with.
        folder: a directory for the interpreter's shims and the shell's log, `activation.log`.

    Raises:
        ActivationError: an interpreter or environment is missing, or a script failed or hung.
    """
    env = dict(base)
    for name in ("PYTHONHOME", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__"):
        env.pop(name, None)
    if wanted.venv:
        _enter_venv(wanted.venv, env)
    if wanted.python:
        _use_interpreter(wanted.python, env, folder)
    if wanted.conda or wanted.modules or wanted.setup.strip():
        env = _through_bash(wanted, env, folder)
    env.update(wanted.env)
    return env


def _enter_venv(path: str, env: dict[str, str]) -> None:
    full = os.path.expanduser(path)
    if not os.access(os.path.join(full, "bin", "python"), os.X_OK):
        raise ActivationError(f"`venv: {path}` has no bin/python on this host")
    env["VIRTUAL_ENV"] = full
    _first_on_path(env, os.path.join(full, "bin"))


def _use_interpreter(path: str, env: dict[str, str], folder: str) -> None:
    full = os.path.expanduser(path)
    if not os.path.isfile(full) or not os.access(full, os.X_OK):
        raise ActivationError(f"`python: {path}` is not an executable file on this host")
    shims = os.path.join(folder, "bin")
    os.makedirs(shims, exist_ok=True)
    for name in ("python", "python3"):
        shim = os.path.join(shims, name)
        with open(shim, "w", encoding="utf-8") as file:
            file.write(_SHIM)
        os.chmod(shim, 0o755)  # noqa: S103 - a program must be executable
    env["ORCH_PYTHON"] = full
    _first_on_path(env, os.path.dirname(full))
    _first_on_path(env, shims)


def _first_on_path(env: dict[str, str], folder: str) -> None:
    env["PATH"] = folder + os.pathsep + env.get("PATH", os.defpath)


def _through_bash(wanted: Activation, env: dict[str, str], folder: str) -> dict[str, str]:
    log_path = os.path.join(folder, "activation.log")
    with tempfile.NamedTemporaryFile(dir=folder, prefix="environment-") as dump:
        inner = dict(
            env,
            ORCH_CONDA=os.path.expanduser(wanted.conda or ""),
            ORCH_SETUP=wanted.setup,
            ORCH_DUMP=dump.name,
            ORCH_DUMP_PYTHON=sys.executable,
        )
        with open(log_path, "wb") as log:
            # bash reads ~/.bashrc where it thinks that sshd has started it.
            argv = ["bash", "--norc", "-c", _SCRIPT, "orch-activation", *wanted.modules]
            code = _run(argv, inner, log)
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {signal_name(-code)}"
            stage = _STAGES.get(code, "setup")
            raise ActivationError(
                f"`{stage}:` ended with {how}: {_last_lines(log_path) or 'no output'}"
            )
        if os.path.getsize(dump.name) == 0:
            raise ActivationError("`setup:` ended the shell: it must not call `exit` or `exec`")
        return _read_dump(dump.name)


def _run(argv: list[str], env: Mapping[str, str], log: IO[bytes]) -> int:
    process = subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        raise ActivationError(f"the activation did not end within {DEADLINE_S:.0f} s") from None


def _read_dump(path: str) -> dict[str, str]:
    with open(path, encoding="ascii") as file:
        pairs = json.load(file)
    decoded = {
        os.fsdecode(bytes.fromhex(name)): os.fsdecode(bytes.fromhex(value))
        for name, value in pairs.items()
    }
    return {name: value for name, value in decoded.items() if name not in _OWN}


def _last_lines(path: str) -> str:
    with open(path, "rb") as file:
        lines = file.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
    return " / ".join(lines[-3:])
