"""What compute-sanitizer's racecheck reports of the hand-overs and of the Hopper layer, counted.

    python -m kernels.moe.races

Each subject runs in a process of its own under racecheck, barriers between partitions met twice
(`kernels.racecheck`). The layer in three variants, and of the kernels of `kernels.moe.handover`
those that wait, must have no report; the one that does not wait must have some, or the tool would
see nothing. Of two more only the count is asked: what an empty kernel gives as Triton builds it,
and a hand-over in which one thread arrives for all. Exits 1 unless all is so. Needs a GPU of sm_90.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from kernels.backend import BACKEND, Backend
from kernels.timing.record import record

SANITIZER = "compute-sanitizer"
# With indirect dependencies the tool follows what one mbarrier orders through another.
WATCHED = (SANITIZER, "--tool", "racecheck", "--racecheck-indirect-barrier-dependency")
DEADLINE_S = 60
ENDING_S = 10
LAYER = (
    "kernels.moe.check", "--path", "hopper", "--tokens", "40", "--top-k", "2", "--experts", "5",
    "--hidden", "256", "--inter", "128", "--routing", "masked", "--repeats", "1", "--meet-twice",
)  # fmt: skip
# What longer experts get, where this size would get 64 rows and a ring of five.
LONG = ("--rows", "128", "--stages", "4")
_SUMMARY = re.compile(
    r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)"
)


@dataclass(frozen=True)
class Subject:
    """What runs under the tool, and whether it must be reported: None where nothing is asked."""

    name: str
    module: tuple[str, ...]
    reported: bool | None


def hand_over(kind: str, *options: str) -> tuple[str, ...]:
    return ("kernels.moe.handover", "--kinds", kind, *options)


SUBJECTS = (
    Subject("empty", hand_over("empty", "--meet-twice"), reported=False),
    Subject("awaited", hand_over("awaited", "--meet-twice"), reported=False),
    Subject("hasty", hand_over("hasty", "--meet-twice"), reported=True),
    Subject("layer", LAYER, reported=False),
    Subject("layer_128", (*LAYER, *LONG, "--tail", "32"), reported=False),
    Subject("layer_wide", (*LAYER, *LONG, "--tail", "64", "--wide"), reported=False),
    Subject("empty_met_once", hand_over("empty"), reported=None),
    Subject("spoken_for", hand_over("spoken_for", "--meet-twice"), reported=None),
)


class NotToldError(Exception):
    """The tool ended without a count, or what it watched failed."""


def main(argv: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(
        prog="python -m kernels.moe.races",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(argv)
    if BACKEND is not Backend.GPU:
        print(f"error: racecheck watches a GPU; the backend here is {BACKEND.value}")
        return 2
    if shutil.which(SANITIZER) is None:
        print(f"error: there is no {SANITIZER} on the PATH; it comes with CUDA's toolkit")
        return 2
    verdicts = [judge(subject) for subject in SUBJECTS]
    return 0 if all(verdicts) else 1


def judge(subject: Subject) -> bool:
    """Watch one subject, tell and record the number of reports, and whether it is as it must be."""
    metric = f"races.{subject.name}"
    try:
        count = reports(subject)
    except NotToldError as problem:
        print(f"WRONG {subject.name}: {problem}")
        record(metric, None, "1", status="error", note=str(problem))
        return False
    right = subject.reported is None or (count > 0) == subject.reported
    print(f"{'ok   ' if right else 'WRONG'} {subject.name}: {count} reports")
    record(metric, count, "1")
    return right


def reports(subject: Subject) -> int:
    """How many races the tool reports of a subject.

    Raises:
        NotToldError: no verdict within the deadline, no count, or the subject itself failed.
    """
    command = [*WATCHED, sys.executable, "-m", *subject.module]
    # A file, since what the tool watches would hold a pipe open after the tool is killed.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            exit_code = watch(command, said)
        finally:
            said.seek(0)
            text = said.read()
            print(text, end="", flush=True)
    return counted(text, exit_code)


def watch(command: Sequence[str], said: IO[str]) -> int:
    """Run the tool until it ends or its deadline; its exit code.

    Raises:
        NotToldError: it cannot be started, or does not end.
    """
    try:
        watched = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            env=_without_results(os.environ),
        )  # fmt: skip
    except OSError as error:
        raise NotToldError(f"{SANITIZER} cannot be started: {error.strerror}") from error
    try:
        return watched.wait(DEADLINE_S)
    except subprocess.TimeoutExpired as late:
        raise NotToldError(f"no verdict within {DEADLINE_S} s") from late
    finally:
        end(watched)


def _without_results(env: Mapping[str, str]) -> dict[str, str]:
    """What is watched records nothing of its own: three layers would fill one place."""
    return {name: value for name, value in env.items() if name != "ORCH_RESULTS"}


def end(watched: subprocess.Popen[bytes]) -> None:
    """Kill the tool and its process group; what has left the group is for whoever runs this.

    Raises:
        NotToldError: it cannot be killed; a kernel that hangs can keep its process alive.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(watched.pid, signal.SIGKILL)
    try:
        watched.wait(ENDING_S)
    except subprocess.TimeoutExpired as alive:
        raise NotToldError(f"the tool lives on {ENDING_S} s after SIGKILL") from alive


def counted(said: str, exit_code: int) -> int:
    """Errors and warnings in the tool's last summary.

    Raises:
        NotToldError: there is none, or the watched program did not end well.
    """
    if exit_code:
        raise NotToldError(f"what was watched ended with exit code {exit_code}")
    found = _SUMMARY.findall(said)
    if not found:
        raise NotToldError("the tool told no count")
    errors, warnings = found[-1]
    return int(errors) + int(warnings)


if __name__ == "__main__":
    sys.exit(main())
