"""What is known of GPU hosts: `x-gpu` blocks of hosts.yaml, and the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.config import Host
from preflight.syntax.yaml import YamlNode, entries, item, scalar

if TYPE_CHECKING:
    from preflight.project import Project

_TEXT = ("arch", "interconnect")
_NUMBERS = ("sms", "gpus", "smem_optin", "max_threads")


def hosts_of(project: Project) -> dict[str, Host]:
    """Hosts by name. A key given in both places is taken from the configuration."""
    found: dict[str, Host] = {}
    for path in project.paths("yaml"):
        if path.rsplit("/", 1)[-1] in ("hosts.yaml", "hosts.yml"):
            found.update(_read(project, path))
    for name, host in project.config.hosts.items():
        written = found.get(name, Host(name))
        known = {key: value for key, value in vars(host).items() if value is not None}
        found[name] = replace(written, **known)
    return found


def _read(project: Project, path: str) -> dict[str, Host]:
    file = project.yaml(path)
    table = file.get("hosts") if file else None
    return {key.value: _host(key.value, item(value, "x-gpu")) for key, value in entries(table)}


def _host(name: str, node: YamlNode | None) -> Host:
    values: dict[str, str | int] = {}
    for key, value in entries(node):
        word = scalar(value)
        field = key.value.replace("-", "_")
        if word is None:
            continue
        if field in _TEXT:
            values[field] = word
        elif field in _NUMBERS and word.isdigit():
            values[field] = int(word)
    return Host(name, **values)  # type: ignore[arg-type]
