"""What `orch run` is: one tuple of small steps, each fed with what the last one made.

A step returns the run as it is now, or an exit code, which ends it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from orchestrator.report.teller import Teller
from orchestrator.run.send import nothing_started, see_to_its_end, send
from orchestrator.run.state import Options, Run, Step
from orchestrator.run.steps import (
    choose_host,
    finish_connecting,
    lint,
    load,
    seal,
    set_out,
    take_snapshot,
)


def run(options: Options, teller: Teller) -> int:
    """Run an experiment from its file to its verdict; returns the exit code.

    Raises:
        OrchError: whatever of its tree ended the run before a verdict.
    """
    steps: tuple[Step, ...] = (
        load,
        choose_host,
        set_out,
        lint,
        take_snapshot,
        finish_connecting,
        seal,
        send,
        see_to_its_end,
    )
    with ExitStack() as cleanup:
        state: Run | int = Run(options, teller, cleanup, time.monotonic())
        for step in steps:
            assert isinstance(state, Run)
            try:
                state = step(state)
            except KeyboardInterrupt:
                if step in (send, see_to_its_end):
                    raise
                return nothing_started(teller)
            if isinstance(state, int):
                return state
    raise AssertionError("the last step returns an exit code")
