from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import HostKeyChanged, HostKeyUnknown
from orchestrator.link import hostkeys, knownhosts

KEY = b"\x00\x00\x00\x0bssh-ed25519 first"
OTHER = b"\x00\x00\x00\x0bssh-ed25519 other"


def line(names: str, key: bytes = KEY, marker: str = "") -> str:
    words = [marker, names, "ssh-ed25519", base64.b64encode(key).decode(), "a comment"]
    return " ".join(word for word in words if word) + "\n"


def known(tmp_path: Path, *lines: str) -> list[knownhosts.KnownKey]:
    path = tmp_path / "known_hosts"
    path.write_text("".join(lines), "utf-8")
    return knownhosts.read([path, tmp_path / "absent"])


@pytest.mark.parametrize(
    ("names", "name", "matches"),
    [
        ("gpu1", "gpu1", True),
        ("gpu1", "GPU1", True),
        ("gpu1,10.0.0.1", "10.0.0.1", True),
        ("*.example.com", "a.example.com", True),
        ("*.example.com,!bad.example.com", "bad.example.com", False),
        ("gpu?", "gpu7", True),
        ("[gpu1]:2222", "[gpu1]:2222", True),
        ("[gpu1]:2222", "gpu1", False),
        ("gpu[12]", "gpu1", False),
    ],
)
def test_names_match_as_openssh_matches_them(
    tmp_path: Path, names: str, name: str, matches: bool
) -> None:
    found = knownhosts.keys_for(name, known(tmp_path, line(names)))

    assert bool(found) is matches


def test_hashed_names_written_by_ssh_keygen_match(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True
    )
    public = (tmp_path / "k.pub").read_text("ascii")
    path.write_text(f"[gpu1]:2222 {public}", "utf-8")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)

    found = knownhosts.read([path])

    assert found[0].names.startswith("|1|")
    assert knownhosts.keys_for("[gpu1]:2222", found) == found
    assert knownhosts.keys_for("gpu1", found) == []


def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True
    )
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "k.pub")], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    key = base64.b64decode((tmp_path / "k.pub").read_text("ascii").split()[1])

    assert knownhosts.fingerprint(key) == shown


def test_damaged_lines_and_comments_are_passed_over(tmp_path: Path) -> None:
    found = known(tmp_path, "# note\n", "\n", "gpu1 ssh-ed25519\n", "gpu1 x !!!\n", line("gpu1"))

    assert [one.line for one in found] == [5]


def test_appending_keeps_what_is_there_and_ends_every_line(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "known_hosts"
    knownhosts.append(path, "a", "ssh-ed25519", KEY)
    path.write_text(path.read_text("utf-8").rstrip("\n"), "utf-8")
    knownhosts.append(path, "b", "ssh-ed25519", OTHER)

    assert [one.names for one in knownhosts.read([path])] == ["a", "b"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_known_key_passes(tmp_path: Path) -> None:
    hostkeys.check("gpu", "gpu1", "ssh-ed25519", KEY, known(tmp_path, line("gpu1")))


def test_an_unknown_host_is_refused_with_fingerprint_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown) as caught:
        hostkeys.check("gpu", "gpu1", "ssh-ed25519", KEY, known(tmp_path, line("gpu2")))

    assert knownhosts.fingerprint(KEY) in str(caught.value)
    assert "orch hosts trust gpu" in str(caught.value)


def test_a_changed_key_is_refused_with_file_line_and_both_fingerprints(tmp_path: Path) -> None:
    with pytest.raises(HostKeyChanged) as caught:
        hostkeys.check(
            "gpu", "gpu1", "ssh-ed25519", OTHER, known(tmp_path, "# one\n", line("gpu1"))
        )

    text = str(caught.value)
    assert f"{tmp_path / 'known_hosts'}:2" in text
    assert knownhosts.fingerprint(KEY) in text
    assert knownhosts.fingerprint(OTHER) in text


def test_a_revoked_key_is_refused_although_it_is_known(tmp_path: Path) -> None:
    lines = (line("gpu1"), line("*", marker="@revoked"))

    with pytest.raises(HostKeyChanged, match="revoked"):
        hostkeys.check("gpu", "gpu1", "ssh-ed25519", KEY, known(tmp_path, *lines))


def test_a_certificate_authority_vouches_for_no_plain_key(tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown):
        hostkeys.check(
            "gpu", "gpu1", "ssh-ed25519", KEY, known(tmp_path, line("*", marker="@cert-authority"))
        )
