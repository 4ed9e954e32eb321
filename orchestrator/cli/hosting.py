"""Commands about hosts."""

from __future__ import annotations

import shutil
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from orchestrator.cli.places import artifacts, host_of_run, project_dir
from orchestrator.errors import EvidenceError, InputError
from orchestrator.link import courier, hostkeys, knownhosts, visits
from orchestrator.report.words import harmless
from orchestrator.source import anchor, repository
from orchestrator.spec.hosts import Host, find_host, hosts_files, load_hosts
from orchestrator.spec.quantity import parse_duration, parse_size, show_duration, show_size
from orchestrator.store import hold, rundir

_LONG_SKEW_S = 2.0
_MARKS = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}


def list_hosts() -> None:
    files = hosts_files(project_dir())
    for name, host in sorted(load_hosts(files).items()):
        print(f"{name:20} {_way(host)}")
    shown = ", ".join(str(path) for path in files) or "no hosts.yaml yet; `orch init` writes one"
    print(f"from {shown}")


def doctor(name: str) -> int:
    """Exit code: 0 all well or warnings only, 3 something would break a run."""
    host_name, host = host_of_run(None, name)
    found = visits.checkup(host_name, host)
    facts = found.welcome
    _tell(
        "ok",
        "link",
        f"{_way(host)}: {facts['user']}@{facts['host']} greeted after {found.greeted_s:.2f} s",
    )
    noise = found.noise.decode("utf-8", "replace").strip()
    if noise:
        text = f"start-up files print before the agent speaks: {noise[:120]!r}"
        _tell("warning", "shell", text, "harmless here, but slow and fatal for scp and rsync")
    _tell_skew(found.host_at)
    for finding in found.findings:
        text = f"{finding['text']} ({finding['seconds']} s)"
        _tell(finding["level"], finding["name"], text, finding["fix"])
    return 3 if any(finding["level"] == "error" for finding in found.findings) else 0


def close(name: str) -> None:
    # A courier outlives its host's entry, so the entry is only asked for where there is none.
    if courier.dismiss(name):
        print(f"closed the connection to {name}")
        return
    find_host(name, hosts_files(project_dir()))
    print(f"no connection to {name} is kept open")


def trust(name: str, fingerprint: str | None) -> None:
    host = find_host(name, hosts_files(project_dir()))
    checked, kind, key, file = _shown_key(host)
    shown = knownhosts.fingerprint(key)
    known = knownhosts.read([file])
    if any(one.key == key for one in knownhosts.keys_for(checked, known)):
        print(f"{file} has this key of {checked} already: {kind} {shown}")
        return
    if knownhosts.keys_for(checked, known):
        # Says which file and line, and refuses: an old key is removed by hand, knowingly.
        hostkeys.check(name, checked, kind, key, known)
    if fingerprint is not None and fingerprint != shown:
        raise InputError(
            f"{checked} shows {kind} {shown}, not {fingerprint}",
            fix="do not connect; ask whoever runs the host",
        )
    if fingerprint is None:
        _confirm(checked, kind, shown)
    knownhosts.append(file, checked, kind, key)
    print(f"trusted: {checked} {kind} {shown} is in {file}")


def gc(
    host: str | None, older_than: str, keep_bytes: str, dry_run: bool, unfetched: bool = False
) -> None:
    try:
        older_than_s, keep = parse_duration(older_than), parse_size(keep_bytes)
    except ValueError as error:
        raise InputError(str(error)) from error
    verb = "would remove" if dry_run else "removed"
    if host is None and unfetched:
        raise InputError("--unfetched is for a host", fix="name it with --host")
    if host is None:
        _gc_here(older_than_s, dry_run, verb)
        return
    host_name, found = host_of_run(None, host)
    swept = visits.sweep(
        host_name,
        found,
        older_than_s=older_than_s,
        keep_bytes=keep,
        dry_run=dry_run,
        unfetched=unfetched,
    )
    for run in swept["runs"]:
        print(f"{verb} {run['run_id']} ({show_size(run['size'])})")
    for run_id in swept["kept"]:
        print(f"kept {run_id}: never brought home; `orch fetch {run_id} --host {host_name}`")
    for run_id in swept["left"]:
        print(f"kept {run_id}: it is home, but for files that are there alone; see its warnings")
    if swept["kept"] or swept["left"]:
        print(f"to remove them all the same: `orch gc --host {host_name} --unfetched`")
    print(
        f"{verb} {swept['packs_removed']} packs of file contents "
        f"({show_size(swept['blob_bytes_removed'])} of {show_size(swept['blob_bytes'])})"
    )
    if swept["spares"] or swept["agents"]:
        print(f"{verb} {swept['spares']} spare checkouts and {swept['agents']} agents")
    if swept["busy"]:
        print("a tree is arriving there: the file contents were left alone; try again later")
    if swept["failed"]:
        raise EvidenceError(
            f"{len(swept['failed'])} could not be removed: {harmless(swept['failed'][0])}",
            fix=f"look at it on {host_name}",
        )


def _gc_here(older_than_s: float, dry_run: bool, verb: str) -> None:
    """Runs that are home and old; one that is not home is the only trace of what it did."""
    limit = time.time() - older_than_s
    found = repository.find(project_dir())
    for folder in rundir.run_dirs(artifacts()):
        try:
            record = folder.read_record()
        except EvidenceError as error:
            print(f"{folder.run_id} stays: {error}", file=sys.stderr)
            continue
        if record.state != "home" or folder.record_file.stat().st_mtime > limit:
            continue
        if not dry_run:
            try:
                with hold.held(folder):
                    anchor.forget(found, record.run_id)
                    shutil.rmtree(folder.path)
            except EvidenceError as error:
                print(f"{folder.run_id} stays: {error}", file=sys.stderr)
                continue
        print(f"{verb} {record.run_id}")


def _shown_key(host: Host) -> tuple[str, str, bytes, Path]:
    if host.carrier == "ssh":
        from orchestrator.link import sshclient

        return (*sshclient.fetch_host_key(host), sshclient.trust_file(host))
    if host.carrier == "openssh":
        from orchestrator.link import openssh

        return (*openssh.fetch_host_key(host), openssh.known_hosts_files(host)[0])
    raise InputError(f"a `{host.carrier}` host has no host key of ours to trust")


def _confirm(checked: str, kind: str, shown: str) -> None:
    print(f"{checked} shows the key {kind} {shown}")
    if not sys.stdin.isatty():
        raise InputError(
            "nobody is here to confirm the key", fix=f"pass --fingerprint {shown} if that is it"
        )
    if input("Is that its fingerprint, as you were told? Type yes: ").strip().lower() != "yes":
        raise InputError("not confirmed; nothing was written")


def _tell(level: str, name: str, text: str, fix: str = "") -> None:
    print(f"{_MARKS[level]}  {name:14} {harmless(text)}")
    if fix and level != "ok":
        print(f"{'':9}{'':15}fix: {harmless(fix)}")


def _tell_skew(host_at: str) -> None:
    try:
        there = datetime.fromisoformat(host_at.replace("Z", "+00:00"))
    except ValueError:
        _tell("warning", "clock", f"the host's clock reads {host_at!r}")
        return
    skew = (there - datetime.now(timezone.utc)).total_seconds()
    if abs(skew) > _LONG_SKEW_S:
        _tell(
            "warning",
            "clock",
            f"the host's clock is {show_duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}",
            "set up NTP there; times in logs will differ",
        )
    else:
        _tell("ok", "clock", f"within {_LONG_SKEW_S:.0f} s of this machine's")


def _way(host: Host) -> str:
    if host.carrier == "via":
        assert host.via is not None
        return f"via: {' '.join(host.via)}"
    value = getattr(host, host.carrier)
    return "local" if host.carrier == "local" else f"{host.carrier}: {value}"
