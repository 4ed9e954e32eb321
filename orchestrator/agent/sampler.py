"""Watches the GPUs beside the steps: one `nvidia-smi` for the whole run, two readings a second.

Clocks before and after a run do not tell what a step had: a card may be at its power limit only
while it works. Nothing that becomes of the tool stops or delays a step.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import IO, Any, Collection, Dict, List, Mapping, Optional, Sequence

from orchestrator.agent.environment.probe import Command, Deadline, ask
from orchestrator.agent.environment.surroundings import Surroundings, nvidia_traces
from orchestrator.agent.samples import FIELDS, HEADER, REASONS, Sample, parsed, summary

FILE_NAME = "gpu-samples.csv"
SWITCH = "ORCH_WATCH_GPUS"
INTERVAL_MS = 500
MAX_ROWS = 200_000
"""Of the file: 28 hours of one GPU."""
MAX_HELD = 20_000
"""Of one job's samples in memory; past it every other one is forgotten."""
_MAX_LINE = 4096
_QUESTION_DEADLINE_S = 3.0
_STOP_GRACE_S = 1.0


def is_wanted(env: Mapping[str, str]) -> bool:
    """Whether an experiment lets its GPUs be watched: each reading asks the driver."""
    return env.get(SWITCH) != "0"


def command(host: Surroundings) -> Optional[Sequence[str]]:
    """How to watch this host's GPUs, None where no NVIDIA GPU is proven or its tool is missing."""
    traces = nvidia_traces(host)
    if not (traces.proven and traces.tool):
        return None
    known = ask(Command((traces.tool, "--help-query-gpu")), Deadline(_QUESTION_DEADLINE_S)).text
    reasons = next((name for name in REASONS if name in known), REASONS[-1])
    fields = ",".join((*FIELDS, reasons))
    # Into a pipe a program may hold its lines back until there are many.
    unbuffered = host.tool("stdbuf", ("/usr/bin",))
    return (
        *((unbuffered, "-oL") if unbuffered else ()),
        traces.tool,
        f"--query-gpu={fields}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={INTERVAL_MS}",
    )


class Sampler:
    """Reads a tool's lines in a thread of its own, from `start` to `stop`."""

    def __init__(self, argv: Sequence[str], folder: str) -> None:
        self._argv = list(argv)
        self._path = os.path.join(folder, FILE_NAME)
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._thread = threading.Thread(target=self._listen, name="gpu-sampler", daemon=True)
        self._turn = threading.Lock()
        self._held: List[Sample] = []
        self._began = 0.0
        self._rows = 0
        self._stopping = False
        self._problem = ""

    def start(self) -> None:
        """Start the tool; that it cannot be started is told by `stop`."""
        try:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, LC_ALL="C"),
                cwd="/",
                start_new_session=True,
            )
        except OSError as failure:
            self._problem = f"{self._argv[0]} could not be started: {failure}"
            return
        self._thread.start()

    @property
    def pids(self) -> Collection[int]:
        """Processes that are no step's."""
        return () if self._child is None else (self._child.pid,)

    def begin(self) -> None:
        """A job begins: what was seen before is not its own, even if it is told later."""
        with self._turn:
            self._began = time.time()
            self._held.clear()

    def seen(self, uuids: Collection[str]) -> List[Dict[str, Any]]:
        """What these GPUs did since `begin`; see `samples.summary`."""
        with self._turn:
            return summary(self._held, uuids)

    def stop(self) -> str:
        """End the tool; says what went wrong with it before, or nothing."""
        self._stopping = True
        if self._child is None:
            return self._problem
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            self._thread.join(_STOP_GRACE_S)
            if not self._thread.is_alive():
                return self._problem
        return self._problem or f"{self._argv[0]} does not end, not even killed"

    def _signal(self, number: int) -> None:
        assert self._child is not None
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.killpg(self._child.pid, number)

    def _listen(self) -> None:
        child = self._child
        assert child is not None
        assert child.stdout is not None
        last = ""
        try:
            with child.stdout as lines:
                last = self._read(lines)
        except OSError as failure:
            self._problem = f"the samples cannot be written: {failure.strerror}"
            self._signal(signal.SIGTERM)
        # Whoever collects the jobs' processes may have taken its exit status.
        child.wait()
        if not (self._stopping or self._problem):
            self._problem = f"{self._argv[0]} ended by itself: {last[:300] or 'without a word'}"

    def _read(self, lines: IO[bytes]) -> str:
        """Keep every sample; the last line that was none."""
        last = ""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with open(self._path, "w", encoding="utf-8") as file:
            file.write(HEADER + "\n")
            for raw in iter(lambda: lines.readline(_MAX_LINE), b""):
                text = raw.decode("utf-8", "replace").strip()
                sample = parsed(text)
                if sample is None:
                    last = text or last
                else:
                    self._keep(sample, file)
        return last

    def _keep(self, sample: Sample, file: IO[str]) -> None:
        with self._turn:
            if sample.at >= self._began:
                self._held.append(sample)
            if len(self._held) > MAX_HELD:
                del self._held[::2]
        self._rows += 1
        if self._rows <= MAX_ROWS:
            file.write(sample.row() + "\n")
            file.flush()
