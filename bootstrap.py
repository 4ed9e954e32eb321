"""One line from a clone to a run: `python3 bootstrap.py run experiments/quickstart.yaml`.

Makes a virtual environment in `.venv`, installs what is needed into it, and runs the command there:

    run ARGS...     `orch run ARGS...`, with torch (and triton on Linux) for the kernels
    test ARGS...    the whole test suite, with pytest's arguments behind it
    orch ARGS...    any other `orch` command
    setup           only the environment

Needs Python 3.10 or newer and the standard library, nothing else. A second call reuses what is
there. Where pip does not come with Python (Debian's python3), it is taken from Debian's own
package, without root and without installing anything into the system.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
STAMP = VENV / "orch-setup.json"
NEWEST_FIRST = ("python3.14", "python3.13", "python3.12", "python3.11", "python3.10")
OLDEST = (3, 10)
APT_DEADLINE_S = 300
PIP_DEADLINE_S = 3600


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    if command not in ("run", "test", "orch", "setup"):
        print(__doc__)
        return 0 if command in ("help", "-h", "--help") else 2
    if sys.version_info < OLDEST:
        return _start_again_with_a_newer_python()
    set_up(("kernels", "dev") if command == "test" else ("kernels", "diff", "review"))
    if command == "test":
        provide("sshd", ("openssh-server", "openssh-client"), "the tests over ssh")
        provide("chromium", ("chromium",), "the tests in a browser")
        return call([str(venv_python()), "-m", "pytest", *arguments])
    if command == "setup":
        print(f"ready: {VENV}")
        return 0
    program = "import sys; from orchestrator.cli import main; sys.argv[0] = 'orch'; main()"
    words = ["run", *arguments] if command == "run" else arguments
    return call([str(venv_python()), "-c", program, *words])


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def set_up(extras: tuple[str, ...]) -> None:
    """Make `.venv` hold this project with the extras; nothing is done when it does already."""
    wanted = hashlib.sha256((HERE / "pyproject.toml").read_bytes()).hexdigest()
    have = json.loads(STAMP.read_text("utf-8")) if STAMP.exists() else {}
    same = have.get("pyproject") == wanted and venv_python().exists()
    if same and set(extras) <= set(have["extras"]):
        return
    installed = tuple(sorted({*extras, *(have.get("extras", []) if same else [])}))
    print(f"setting up {VENV} (once): {', '.join(installed)}", flush=True)
    if not venv_python().exists():
        make_venv()
    pip("install", "--editable", f"{HERE}[{','.join(installed)}]")
    STAMP.write_text(json.dumps({"pyproject": wanted, "extras": installed}), "utf-8")


def make_venv() -> None:
    has_pip = importlib.util.find_spec("ensurepip") is not None
    options = [] if has_pip else ["--without-pip"]
    run([sys.executable, "-m", "venv", *options, str(VENV)])
    if not has_pip:
        install_pip_from_debian()


def install_pip_from_debian() -> None:
    """Unpack the wheel of Debian's python3-pip-whl; lists and files go to a temporary directory."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SystemExit("bootstrap: this Python has no pip and no ensurepip; install python3-venv")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        apt = [
            "apt-get",
            "-qq",
            *("-o", f"Dir::State::Lists={folder / 'lists'}"),
            *("-o", f"Dir::Cache={folder / 'cache'}"),
            # As root apt would hand the download to a user who may not write here.
            *("-o", "APT::Sandbox::User=root"),
        ]
        run([*apt, "update"], deadline_s=APT_DEADLINE_S)
        run([*apt, "download", "python3-pip-whl"], cwd=folder, deadline_s=APT_DEADLINE_S)
        package = next(folder.glob("python3-pip-whl*.deb"))
        run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")])
        wheel = next((folder / "unpacked/usr/share/python-wheels").glob("pip-*.whl"))
        run([str(venv_python()), f"{wheel}/pip", "install", "--no-index", "--quiet", str(wheel)])


def pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    run([str(venv_python()), "-m", "pip", *arguments, *quiet], deadline_s=PIP_DEADLINE_S)


def provide(program: str, packages: tuple[str, ...], who: str) -> None:
    """The tests want real parts; root on Debian can have them, others are told what they skip."""
    places = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin" + os.pathsep + "/usr/local/sbin"
    if os.name == "nt" or shutil.which(program, path=places):
        return
    if os.getuid() == 0 and shutil.which("apt-get"):
        print(f"installing {packages[0]} for {who} (once)", flush=True)
        run(["apt-get", "-qq", "update"], deadline_s=APT_DEADLINE_S)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-qq", "-y", "--no-install-recommends", "install"]
        run([*install, *packages], deadline_s=APT_DEADLINE_S, env=quiet)
        return
    print(f"no {program} here: {who} are skipped (install {packages[0]})", flush=True)


def run(
    argv: list[str],
    *,
    cwd: Path | None = None,
    deadline_s: float = 120,
    env: dict[str, str] | None = None,
) -> None:
    """Run a command; when it fails, say which one and stop."""
    try:
        done = subprocess.run(argv, cwd=cwd, timeout=deadline_s, env=env, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"bootstrap: no end within {deadline_s:.0f} s: {' '.join(argv)}") from None
    if done.returncode != 0:
        raise SystemExit(f"bootstrap: exit code {done.returncode} from: {' '.join(argv)}")


def call(argv: list[str]) -> int:
    """Become the command where the system can, so that Ctrl-C and exit codes are its own."""
    if os.name == "nt":
        return subprocess.run(argv, check=False).returncode
    os.execv(argv[0], argv)  # noqa: S606 - no shell is what we want
    raise AssertionError("exec does not return")


def _start_again_with_a_newer_python() -> int:
    newer = next((found for name in NEWEST_FIRST if (found := shutil.which(name))), None)
    if newer is None:
        version = sys.version.split()[0]
        print(f"bootstrap: Python 3.10 or newer is needed, this is {version}", file=sys.stderr)
        return 2
    return call([newer, *sys.argv])


if __name__ == "__main__":
    sys.exit(main())
