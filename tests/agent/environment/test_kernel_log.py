from __future__ import annotations

import os

import pytest

from orchestrator.agent.environment import kernel_log
from orchestrator.agent.environment.kernel_log import Log, count_oom_kills, parse_events
from orchestrator.agent.environment.probe import Deadline
from orchestrator.agent.environment.surroundings import Surroundings

from .conftest import FakeHost, fixture_files, fixture_text


@pytest.mark.parametrize("name", fixture_files("kernel-log/*"))
def test_every_xid_line_of_every_log_is_found_and_nothing_else(name: str) -> None:
    lines = fixture_text(name).splitlines()
    expected = sum("NVRM: Xid (" in line for line in lines)
    expected_switch = sum("SXid (" in line for line in lines)

    xids, sxids = parse_events(lines)

    assert (len(xids), len(sxids)) == (expected, expected_switch)
    assert all(event.code > 0 and event.text for event in xids + sxids)


def test_each_shape_of_an_xid_line_is_understood() -> None:
    xids, _ = parse_events(fixture_text("kernel-log/xid-lines.log").splitlines())

    assert [(e.pci, e.code) for e in xids[:5]] == [
        ("0000:05:00", 79),
        ("0000:01:00", 79),
        ("0000:03:00", 14),
        ("0000:05:00", 79),
        ("0000:03:00", 14),
    ]
    recovery = next(event for event in xids if event.code == 154)
    assert recovery.text == "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
    assert recovery.at == "171167.621162"
    assert {event.code for event in xids} >= {144, 145, 146, 147, 148, 149, 150, 154}


def test_pid_and_name_are_told_where_the_driver_knows_them() -> None:
    xids, _ = parse_events(fixture_text("kernel-log/dmesg-iso-xid13-oom.log").splitlines())

    assert (xids[0].pid, xids[0].name, xids[0].code) == (None, "", 13)
    assert (xids[-1].pid, xids[-1].name, xids[-1].code) == (2924364, "pt_main_thread", 43)
    assert xids[0].at == "2025-01-21T04:41:44.283302+00:00"


def test_a_gsp_timeout_names_its_victim_and_the_calendar_time() -> None:
    xids, _ = parse_events(fixture_text("kernel-log/dmesg-xid119-gsp-timeout.log").splitlines())

    assert (xids[0].code, xids[0].name, xids[0].pid) == (119, "nvidia-smi", 2024380)
    assert xids[0].at == "Sun Feb 23 16:24:18 2025"


def test_switch_errors_are_kept_apart() -> None:
    xids, sxids = parse_events(fixture_text("kernel-log/xid79-sxid20034.log").splitlines())

    assert [event.code for event in xids] == [79]
    assert {event.code for event in sxids} == {20034}
    assert sxids[0].text == "Fatal, Link 48 LTSSM Fault Up"


def test_raw_records_have_their_time_in_microseconds() -> None:
    line = "4,1234,171167620236,-;NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal"

    xids, _ = parse_events([line])

    assert xids[0].at == "171167.620236"


def test_memory_kills_are_counted_once_each() -> None:
    lines = fixture_text("kernel-log/dmesg-iso-xid13-oom.log").splitlines()

    assert count_oom_kills(lines) == 3
    assert count_oom_kills(["Memory cgroup out of memory: Killed process 7 (python)"]) == 1
    assert count_oom_kills(["oom_reaper: reaped process 7 (python)"]) == 0


def test_a_readable_log_without_trouble_is_zero_events() -> None:
    found = kernel_log.readings(Log("/dev/kmsg", ("6,1,2,-;hello",)), nvidia_here=True)

    assert found["kernel_log.xid_count"].value == 0
    assert found["kernel_log.xid"].value == []
    assert found["kernel_log.oom_kills"].value == 0


def test_a_log_that_cannot_be_read_is_unknown_and_not_zero() -> None:
    closed = Log("/dev/kmsg", (), "/dev/kmsg: Operation not permitted")

    found = kernel_log.readings(closed, nvidia_here=True)

    assert {reading.state for reading in found.values()} == {"unknown"}
    assert found["kernel_log.xid_count"].detail == "/dev/kmsg: Operation not permitted"


def test_without_nvidia_there_is_no_xid_to_look_for() -> None:
    found = kernel_log.readings(Log("/dev/kmsg", ()), nvidia_here=False)

    assert found["kernel_log.xid_count"].state == "not_applicable"
    assert found["kernel_log.oom_kills"].value == 0


def test_old_trouble_is_counted_and_the_newest_is_told() -> None:
    lines = [f"[{n}.0] NVRM: Xid (PCI:0000:01:00): 13, number {n}" for n in range(1, 81)]

    found = kernel_log.readings(Log("dmesg", lines), nvidia_here=True)

    assert found["kernel_log.xid_count"].value == 80
    kept = found["kernel_log.xid"].value
    assert (len(kept), kept[-1]["text"], kept[0]["text"]) == (50, "number 80", "number 31")


def test_the_log_of_a_host_is_read_from_the_first_source_that_is_open(fake_host: FakeHost) -> None:
    fake_host.tool(
        "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    )
    fake_host.tool(
        "journalctl", "echo '2026-01-01T00:00:00+0000 host kernel: NVRM: Xid (0000:03:00): 14, x'"
    )

    log = kernel_log.read_log(fake_host.surroundings, Deadline(5))

    assert log.source.startswith("journalctl -k")
    assert [event.code for event in parse_events(log.lines)[0]] == [14]


def test_every_closed_door_is_named(fake_host: FakeHost) -> None:
    fake_host.tool("dmesg", "echo 'Operation not permitted' >&2; exit 1")
    fake_host.tool("journalctl", "echo '-- No entries --'")

    log = kernel_log.read_log(fake_host.surroundings, Deadline(5))

    assert "/dev/kmsg: No such file or directory" in log.problem
    assert "dmesg ended with exit status 1" in log.problem
    assert "journalctl shows no kernel messages to this user" in log.problem


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg is closed to this user")
def test_the_log_of_this_machine_can_be_read() -> None:
    log = kernel_log.read_log(Surroundings.here(), Deadline(10))

    assert log.source == "/dev/kmsg" or log.problem
    if not log.problem:
        assert all("\n" not in line for line in log.lines)


def test_only_lines_about_gpus_and_memory_are_stored_and_no_secrets() -> None:
    lines = (
        "[1.0] NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=x --token=planted, y",
        "[2.0] usb 1-1: new device of somebody",
    )

    stored = kernel_log.output(Log("dmesg", lines))

    assert stored is not None
    assert b"Xid" in stored.content
    assert b"planted" not in stored.content
    assert b"somebody" not in stored.content
