from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InputError, SpecError
from orchestrator.spec.document import parse
from orchestrator.spec.hosts import Host, Hosts, find_host, load_hosts
from orchestrator.spec.model import validate


def hosts(text: str) -> Hosts:
    return validate(Hosts, parse(f"hosts:\n  h: {text}\n", "hosts.yaml"))


@pytest.mark.parametrize(
    ("text", "carrier"),
    [
        ("{local: true}", "local"),
        ("{ssh: user@host:2222, venv: ~/v}", "ssh"),
        ("{openssh: alias}", "openssh"),
        ("{via: [kubectl, exec, -i, pod, --]}", "via"),
    ],
)
def test_one_way_to_the_host(text: str, carrier: str) -> None:
    assert hosts(text).hosts["h"].carrier == carrier


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no way to the host is named"),
        ("{ssh: a, openssh: b}", "ssh and openssh are given"),
        ("{ssh: '-oProxyCommand=evil'}", "is not an address"),
        ("{openssh: 'a b'}", "is not an address"),
        ('{ssh: "a\\nb"}', r"'a\nb' is not an address"),
        ("{local: true, root: here}", "`root` is 'here'; expected a path that begins with `/` or"),
        ("{local: true, root: ~nobody/x}", "`root` is '~nobody/x'; expected a path that begins"),
        ('{local: true, root: "/a\\nb"}', r"`root` is '/a\nb'; expected a path"),
        ("{local: true, venv: a, conda: b}", "venv and conda are given"),
        ("{ssh: a, prot: 22}", "unknown key `prot`"),
        ("{via: []}", "via is empty"),
    ],
)
def test_hosts_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        hosts(text)

    assert words in str(caught.value)


def test_the_projects_file_wins_over_the_users(tmp_path: Path) -> None:
    project, user = tmp_path / "project.yaml", tmp_path / "user.yaml"
    project.write_text("hosts:\n  gpu: {ssh: project}\n", "utf-8")
    user.write_text("hosts:\n  gpu: {ssh: user}\n  other: {ssh: o}\n", "utf-8")

    known = load_hosts([project, user])

    assert known["gpu"].ssh == "project"
    assert known["other"].ssh == "o"
    assert known["local"].local


def test_an_unknown_host_names_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts:\n  h200: {ssh: a}\n", "utf-8")

    with pytest.raises(InputError, match="did you mean `h200`"):
        find_host("h100", [path])


def test_entries_that_lead_to_the_same_root_are_one_place() -> None:
    first = Host(ssh="gpu-1")

    assert Host(ssh="gpu-1", python="/opt/python3", keep_open="10m").place == first.place
    assert Host(ssh="gpu-1", root="/scratch/orch").place != first.place
    assert Host(openssh="gpu-1").place != first.place
