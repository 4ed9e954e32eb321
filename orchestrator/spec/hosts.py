"""hosts.yaml: how each machine is reached and what its shell needs before a step runs.

Two files are read, the project's and the user's; a name in the project's file wins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from orchestrator.errors import InputError, Problem, SpecError
from orchestrator.spec.document import Document, load
from orchestrator.spec.model import Model, did_you_mean, validate
from orchestrator.spec.quantity import Duration, wrong
from orchestrator.spec.words import EnvName, EnvValue, Flag, HostName

CARRIERS = ("local", "ssh", "openssh", "via")


class Host(Model):
    """One machine. Exactly one of `local`, `ssh`, `openssh` and `via` says how to get there."""

    local: Flag = False
    """This machine; Linux or macOS."""
    ssh: str | None = None
    """`user@host:port` or an alias of your ssh config; paramiko, no ssh program needed."""
    openssh: str | None = None
    """An alias for the system's ssh program: MFA, FIDO keys, certificates, your own options."""
    via: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """A command that runs the arguments after it on the host: `[kubectl, exec, -i, pod, --]`."""

    ssh_config: str | None = None
    """An ssh config file to read instead of `~/.ssh/config`."""
    agent_python: str = "python3"
    """The interpreter (3.8 or newer) that runs the agent there."""
    root: str = "~/.orch"
    """Where blobs, runs and leases live on the host."""
    connect_timeout: Duration = 20.0
    keep_open: Duration | None = None
    """Keep the connection, with an agent waiting, for so long after a run: the next one starts at
    once. Without it every run logs in anew."""

    python: str | None = None
    """The interpreter of the steps: `python` and `python3` mean this one."""
    venv: str | None = None
    """A virtual environment the steps run in."""
    conda: str | None = None
    """A conda environment, by name or path."""
    modules: tuple[str, ...] = ()
    """Environment modules loaded before the steps."""
    setup: str = ""
    """A bash script sourced once before the first step; its environment is the steps'."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables of every step on this host."""

    @model_validator(mode="after")
    def _one_way_there(self) -> Host:
        given = [name for name in CARRIERS if getattr(self, name)]
        if len(given) != 1:
            what = (
                "no way to the host is named" if not given else f"{' and '.join(given)} are given"
            )
            raise wrong(what, "exactly one of `ssh`, `openssh`, `via` and `local: true`")
        chosen = [name for name in ("python", "venv", "conda") if getattr(self, name)]
        if len(chosen) > 1:
            raise wrong(f"{' and '.join(chosen)} are given", "one of `python`, `venv` and `conda`")
        for name in ("ssh", "openssh"):
            address = getattr(self, name)
            # An address that starts with a dash would reach the ssh program as an option.
            if address and (address.startswith("-") or any(c.isspace() for c in address)):
                raise wrong(f"{address!r} is not an address", "`user@host:port` or an alias")
        if not f"{self.root}/".startswith(("/", "~/")) or not self.root.isprintable():
            # A relative one would lie in whatever directory the agent is started in, and so would
            # that of a user who is not there.
            raise wrong(
                f"`root` is {self.root!r}", "a path that begins with `/` or `~/`, in a line"
            )
        return self

    @property
    def carrier(self) -> str:
        return next(name for name in CARRIERS if getattr(self, name))

    @property
    def place(self) -> str:
        """The way there and the root: entries that share both share what lies there."""
        return repr((self.carrier, getattr(self, self.carrier), self.ssh_config, self.root))


class Hosts(Model):
    """The whole file."""

    hosts: dict[HostName, Host]


def user_hosts_file() -> Path:
    """Where the user's own hosts.yaml is looked for."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", "~")).expanduser() / "orch" / "hosts.yaml"
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "orch/hosts.yaml"


def hosts_files(project: Path) -> list[Path]:
    """The files that are there, readable or not, the one that wins first."""
    return [path for path in (project / "hosts.yaml", user_hosts_file()) if os.path.lexists(path)]


def load_hosts(files: Sequence[Path]) -> dict[str, Host]:
    """All hosts of the files, earlier files winning, and always a host named `local`.

    Raises:
        SpecError: a file is wrong.
    """
    known: dict[str, Host] = {"local": Host(local=True)}
    for path in reversed(files):
        if not path.is_file():
            # A pipe would be waited for, and a link to nothing looks like no hosts at all.
            raise SpecError([Problem("this is no file", "a file, or nothing", file=str(path))])
        known.update(_read(load(path)).hosts)
    return known


def find_host(name: str, files: Sequence[Path], *, asked_at: Problem | None = None) -> Host:
    """The host of that name.

    Raises:
        InputError: no file names it; the message lists the files and the nearest name.
    """
    known = load_hosts(files)
    if name in known:
        return known[name]
    listed = ", ".join(str(path) for path in files) or f"hosts.yaml, nor in {user_hosts_file()}"
    expected = "one of " + ", ".join(f"`{host}`" for host in sorted(known))
    fix = did_you_mean(name, known) or "add it to hosts.yaml, or run `orch init`"
    what = f"no host is named `{name}` in {listed}"
    if asked_at is not None:
        raise SpecError(
            [Problem(what, expected, fix, asked_at.file, asked_at.line, asked_at.column)]
        )
    raise InputError(what, expected=expected, fix=fix)


def _read(document: Document) -> Hosts:
    return validate(Hosts, document)
