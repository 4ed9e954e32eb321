"""What the kernel wrote about the GPUs since boot: NVIDIA Xid, NVSwitch SXid, memory kills.

Reads /dev/kmsg, and asks `dmesg` and `journalctl -k` where that is closed to us. Lines of every
shape are understood: raw records, `dmesg` with any time stamp, saved logs; with and without `PCI:`,
pid and name.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from orchestrator.agent.environment.field import Readings, known, not_applicable, unknown
from orchestrator.agent.environment.probe import Answer, Command, Deadline, ask
from orchestrator.agent.environment.raw import Output
from orchestrator.agent.environment.redact import redacted
from orchestrator.agent.environment.surroundings import Surroundings

KMSG = "/dev/kmsg"
# Old trouble is counted; only the newest lines are told in full.
KEPT_LINES = 50

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+),\s*"
    r"(?:pid=(?P<pid>'?[^,']*'?), (?:name=(?P<name>[^,]*), )?)?(?P<text>.*)"
)
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+),\s*(?P<text>.*)")
# One kill writes several lines; each kernel writes exactly one with these words.
_OOM_KILL = re.compile(r"Out of memory: Kill(?:ed)? process \d+|Memory cgroup out of memory: Kill")
_RAW_RECORD = re.compile(r"\d+,\d+,(?P<us>\d+),[^;]*;(?P<text>.*)")
_SECONDS = re.compile(r"(?:<\d+>)?\[\s*(?P<s>\d+\.\d+)\]\s*(?P<text>.*)")
_CALENDAR = re.compile(
    r"(?:\w+\s*:\w+\s*:\s*)?(?:\[(?P<words>\w{3} \w{3} [^\]]+)\]"
    r"|(?P<iso>\d{4}-\d\d-\d\dT[\d:,.]+(?:[+-]\d\d:?\d\d|Z)?))\s*(?P<text>.*)"
)
# What is stored of the log: lines about GPUs and memory, nothing else of the host.
_RELEVANT = re.compile(
    r"NVRM|Xid|nvidia|nvswitch|amdgpu|kfd|hydcu|oom|Out of memory|segfault|GPU", re.IGNORECASE
)


@dataclass(frozen=True)
class Event:
    """One Xid or SXid line. `at` is the time as the log gives it: seconds since boot or a date."""

    at: str
    pci: str
    code: int
    pid: Optional[int]
    name: str
    text: str

    def to_value(self) -> Dict[str, Any]:
        return {
            "at": self.at,
            "pci_bus_id": self.pci,
            "code": self.code,
            "pid": self.pid,
            "name": self.name,
            "text": self.text,
        }


@dataclass(frozen=True)
class Log:
    """The lines of the kernel log that could be had, or why there are none."""

    source: str
    lines: Sequence[str]
    problem: str = ""


def parse_events(lines: Iterable[str]) -> Tuple[List[Event], List[Event]]:
    """(Xid events, SXid events) in the order of the log."""
    xids: List[Event] = []
    sxids: List[Event] = []
    for line in lines:
        at, text = _stamp(line)
        match = _XID.search(text)
        if match:
            xids.append(_event(at, match))
            continue
        match = _SXID.search(text)
        if match:
            sxids.append(_event(at, match))
    return xids, sxids


def count_oom_kills(lines: Iterable[str]) -> int:
    return sum(1 for line in lines if _OOM_KILL.search(line))


def _stamp(line: str) -> Tuple[str, str]:
    """(time, message) of a line; the time is empty when the line has none."""
    record = _RAW_RECORD.match(line)
    if record:
        return f"{int(record['us']) / 1e6:.6f}", record["text"]
    seconds = _SECONDS.match(line)
    if seconds:
        return seconds["s"], seconds["text"]
    calendar = _CALENDAR.match(line)
    if calendar:
        return calendar["words"] or calendar["iso"].replace(",", "."), calendar["text"]
    return "", line


def _event(at: str, match: re.Match[str]) -> Event:
    fields = match.groupdict()
    pid = (fields.get("pid") or "").strip("'")
    name = (fields.get("name") or "").strip()
    return Event(
        at=at,
        pci=fields["pci"],
        code=int(fields["code"]),
        pid=int(pid) if pid.isdigit() else None,
        name="" if name == "<unknown>" else name,
        text=fields["text"].strip(),
    )


def read_log(host: Surroundings, deadline: Deadline) -> Log:
    """The kernel log by the first way that is open to us."""
    try:
        return Log(KMSG, _records(host.at(KMSG), deadline))
    except OSError as failure:
        reasons = [f"{KMSG}: {failure.strerror}"]
    for command in (("dmesg",), ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso")):
        tool = host.tool(command[0])
        if tool is None:
            continue
        answer = ask(Command((tool, *command[1:])), deadline)
        if not answer.problem and not _is_hidden(answer):
            return Log(" ".join(command), answer.text.splitlines())
        reasons.append(f"{command[0]} {answer.problem or 'shows no kernel messages to this user'}")
    return Log(KMSG, (), "; ".join(reasons))


def _is_hidden(answer: Answer) -> bool:
    """`journalctl` ends with 0 and a remark when this user may not see the kernel's lines."""
    return not any(line and not line.startswith("-- ") for line in answer.text.splitlines())


def _records(path: str, deadline: Deadline) -> List[str]:
    """Every record the kernel still holds. Raises OSError when it may not be read."""
    records: List[str] = []
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            if deadline.remaining() <= 0:
                raise TimeoutError(errno.ETIMEDOUT, "reading it took too long")
            try:
                record = os.read(handle, 1 << 13)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the oldest record was overwritten while we read; the next one is there
            if not record:
                break
            # Lines after the first hold the device's name again, one blank in.
            records.append(record.decode("utf-8", "replace").split("\n", 1)[0])
    finally:
        os.close(handle)
    return records


def readings(log: Log, nvidia_here: bool) -> Readings:
    """`nvidia_here`: an NVIDIA driver or device was found; without one no Xid can be there."""
    if log.problem:
        oom = unknown(log.source, log.problem)
        return {**_nvidia(log, nvidia_here), "kernel_log.oom_kills": oom}
    oom = known(count_oom_kills(log.lines), log.source)
    return {**_nvidia(log, nvidia_here), "kernel_log.oom_kills": oom}


def _nvidia(log: Log, here: bool) -> Readings:
    keys = ("xid_count", "xid", "sxid_count", "sxid")
    if not here:
        gone = not_applicable(log.source, "no NVIDIA driver and no NVIDIA device here")
        return {f"kernel_log.{key}": gone for key in keys}
    if log.problem:
        return {f"kernel_log.{key}": unknown(log.source, log.problem) for key in keys}
    xids, sxids = parse_events(log.lines)
    result: Readings = {}
    for kind, events in (("xid", xids), ("sxid", sxids)):
        newest = [event.to_value() for event in events[-KEPT_LINES:]]
        result[f"kernel_log.{kind}_count"] = known(len(events), log.source)
        result[f"kernel_log.{kind}"] = known(newest, log.source)
    return result


def output(log: Log) -> Optional[Output]:
    """The lines worth keeping, as a raw output; None when the log could not be read."""
    if log.problem:
        return None
    kept = [redacted(line) for line in log.lines if _RELEVANT.search(line)]
    content = "".join(f"{line}\n" for line in kept).encode("utf-8", "replace")
    return Output("kernel-log.txt", (log.source,), 0, content)
