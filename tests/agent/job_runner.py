"""Runs one job as a supervisor does, in a process that has no children but those of the job.

Started by `run_job`: the order comes as JSON on standard input, the outcome goes to standard
output.
"""

from __future__ import annotations

import json
import os
import signal as signals
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.agent import jobenv, oom, processes
from orchestrator.agent.evidence import stack_signal
from orchestrator.agent.job import JobRun, Surroundings
from orchestrator.agent.logfile import LogFile
from orchestrator.agent.outcome import Outcome
from orchestrator.agent.plan import Job, Stop
from orchestrator.agent.signals import wake_on_signals

ROOT = Path(__file__).resolve().parent.parent.parent
PAYLOAD = ROOT / "orchestrator" / "agent" / "payload"
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Ran:
    """How a job ended, and what it left."""

    outcome: Outcome
    log: str
    folder: Path
    took_s: float


def run_job(
    folder: Path,
    script: str | list[str],
    *,
    timeout_s: float = 30.0,
    signal: str = "TERM",
    grace_s: float = 5.0,
    env: Mapping[str, str] | None = None,
    **order: Any,
) -> Ran:
    """Run a script to its proven end, in a runner of its own.

    Args:
        order: `log_limit_bytes`; `secrets`; `gpu_state`, the text to be logged; `cancel_when`, a
            file whose existence cancels; `before`, a script that is started beside the job, as a
            hung probe would be; `deaf_to`, signals that the supervisor was started to ignore and
            block; `oom_counts`, what the kernel says before and after; `log_fails`, the text of an
            error that every write to the log raises.
    """
    runner = start_job(
        folder, script, timeout_s=timeout_s, signal=signal, grace_s=grace_s, env=env, **order
    )
    return finish_job(runner, folder)


def start_job(folder: Path, script: str | list[str], **order: Any) -> subprocess.Popen[str]:
    (folder / "work").mkdir(parents=True, exist_ok=True)
    runner = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.job_runner"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert runner.stdin is not None
    runner.stdin.write(json.dumps({"folder": str(folder), "run": script, **order}))
    runner.stdin.close()
    return runner


def finish_job(runner: subprocess.Popen[str], folder: Path) -> Ran:
    assert runner.stdout is not None
    assert runner.stderr is not None
    with runner.stdout, runner.stderr:
        out, err = runner.stdout.read(), runner.stderr.read()
    code = runner.wait(DEADLINE_S)
    assert code == 0, err
    assert err == ""
    answer = json.loads(out)
    log = folder / "log"
    text = "" if log.is_symlink() else log.read_text("utf-8", "replace")
    return Ran(Outcome(**answer["outcome"]), text, folder, answer["took_s"])


def main() -> None:
    order = json.loads(sys.stdin.read())
    folder = Path(order["folder"])
    processes.become_subreaper()
    strangers = _start_strangers(order.get("before"))
    job = Job(
        id="job",
        step="job",
        point={},
        round=0,
        folder="job",
        run=order["run"],
        timeout_s=order.get("timeout_s", 30.0),
        stop=Stop(order.get("signal", "TERM"), order.get("grace_s", 5.0)),
        log_limit_bytes=order.get("log_limit_bytes", 1_000_000),
    )
    mark = f"test-{os.getpid()}/0"
    cancel = Path(order.get("cancel_when") or folder / "no-such-file")
    around = Surroundings(
        cancelled=cancel.exists,
        wake=wake_on_signals(lambda _: None),
        gpu_state=lambda: order.get("gpu_state", ""),
        secrets=[secret.encode() for secret in order.get("secrets", [])],
        strangers=strangers,
    )
    shared = {
        **jobenv.inherited(),
        "PYTHONPATH": str(PAYLOAD),
        "PYTHONUNBUFFERED": "1",
        "ORCH_STACK_SIGNAL": str(stack_signal()),
        **(order.get("env") or {}),
    }
    _prepare_trouble(order)
    begun = time.monotonic()
    env = jobenv.of_job(shared, job, mark, str(folder), [])
    run = JobRun(job, mark, env, str(folder / "work"), str(folder / "log"), around)
    try:
        outcome = run.run()
    except RuntimeError as error:
        # What a supervisor would find beside its next job.
        left = [process.name for process in processes.members(mark, strangers).values()]
        outcome = Outcome(f"broken: {error}", leftover=left)
    print(json.dumps({"outcome": asdict(outcome), "took_s": time.monotonic() - begun}))


def _prepare_trouble(order: Mapping[str, Any]) -> None:
    deaf_to = [getattr(signals, f"SIG{name}") for name in order.get("deaf_to", [])]
    signals.pthread_sigmask(signals.SIG_BLOCK, deaf_to)
    for number in deaf_to:
        signals.signal(number, signals.SIG_IGN)
    if "oom_counts" in order:
        counts = iter(order["oom_counts"])
        oom.kills = lambda: next(counts)
    if "log_fails" in order:

        def fail(self: LogFile, piece: bytes) -> None:
            raise RuntimeError(order["log_fails"])

        LogFile.write = fail  # type: ignore[method-assign]


def _start_strangers(script: str | None) -> frozenset[int]:
    if not script:
        return frozenset()
    nothing = subprocess.DEVNULL
    stranger = subprocess.Popen(
        ["bash", "-c", script], stdin=nothing, stdout=nothing, stderr=nothing
    )
    return frozenset([stranger.pid])


if __name__ == "__main__":
    main()
