"""Hosts in a few words, each with the way it is reached, and the least that runs there."""

from __future__ import annotations

from pathlib import Path

from orchestrator.spec.hosts import Host
from tests.conftest import Project
from tests.hosts.sshd import SshServer

QUICK = """
experiment: quick
kind: probe
timeout: 30s
steps:
  - {id: a, run: echo a}
"""


def local(tmp_path: Path) -> Host:
    return Host(local=True, root=str(tmp_path / "root"))


def via(tmp_path: Path, script: str) -> Host:
    return Host(via=("bash", "-c", script, "--"), root=str(tmp_path / "root"))


def over_ssh(server: SshServer, tmp_path: Path, carrier: str, **more: object) -> Host:
    return Host(
        **{carrier: "testhost"}, ssh_config=str(server.config), root=str(tmp_path / "root"), **more
    )


def behind(project: Project, server: SshServer, port: int) -> None:
    """A host that is reached through a proxy on that port."""
    config = project.home / "ssh_config"
    text = server.config.read_text("utf-8").replace(f"Port {server.port}", f"Port {port}")
    known = project.home / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {server.host_public_key}\n", "ascii")
    config.write_text(text.replace(str(server.known_hosts), str(known)), "utf-8")
    root = project.home / ".orch"
    project.write(
        "hosts.yaml",
        f"hosts:\n  far: {{ssh: testhost, ssh_config: '{config}', root: '{root}'}}\n",
    )
