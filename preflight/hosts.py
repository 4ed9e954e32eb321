"""What is known of GPU hosts: `x-gpu` blocks of the project's hosts.yaml, and the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.config import Config, Host

if TYPE_CHECKING:
    from preflight.syntax.yaml import YamlNode

_TEXT = ("arch", "interconnect")
_NUMBERS = ("sms", "gpus", "smem_optin", "max_threads")


def with_known_hosts(config: Config) -> Config:
    """The configuration with the hosts that hosts.yaml describes; its own facts win."""
    found = _described(config)
    for name, host in config.hosts.items():
        written = found.get(name, Host(name))
        known = {key: value for key, value in vars(host).items() if value is not None}
        found[name] = replace(written, **known)
    return replace(config, hosts=found)


def _described(config: Config) -> dict[str, Host]:
    file = config.root / "hosts.yaml"
    data = file.read_bytes() if file.is_file() else b""
    # Most projects describe no GPU there, and reading YAML costs more than all else in a commit.
    if b"x-gpu" not in data:
        return {}
    from preflight.syntax.yaml import YamlError, YamlFile, entries, item

    try:
        table = YamlFile("hosts.yaml", data).get("hosts")
    except (YamlError, UnicodeDecodeError):
        # The file pass reports that hosts.yaml does not parse; here nothing is known of its hosts.
        return {}
    return {
        key.value: _host(key.value, block)
        for key, value in entries(table)
        if (block := item(value, "x-gpu")) is not None
    }


def _host(name: str, node: YamlNode) -> Host:
    from preflight.syntax.yaml import entries, scalar

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
