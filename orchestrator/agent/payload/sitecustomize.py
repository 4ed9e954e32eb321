"""Runs at the start of every Python process of a step; the agent puts it on PYTHONPATH.

A process that hangs can then be asked where, whatever it is doing: on the signal named by
ORCH_STACK_SIGNAL it writes the stacks of all its threads to its standard error. The host's own
`sitecustomize`, which this one hides, runs as it would have.
"""

from __future__ import annotations

import faulthandler
import os
import sys


def _answer_with_stacks() -> None:
    number = os.environ.get("ORCH_STACK_SIGNAL", "")
    if number.isdigit():
        try:
            faulthandler.register(int(number), all_threads=True)
        except (AttributeError, ValueError, RuntimeError, OSError) as error:
            # No standard error, or no such signal: the step runs all the same.
            os.environ["ORCH_STACK_SIGNAL_ERROR"] = str(error)


def _switch_guards_on() -> None:
    if os.environ.get("ORCH_GUARDS"):
        import preflight_guard  # type: ignore[import-not-found, unused-ignore]

        preflight_guard.activate_from_env()


def _run_hidden_one() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    for finder in sys.meta_path:
        if getattr(finder, "__name__", "") != "PathFinder":
            continue
        spec = finder.find_spec("sitecustomize", others)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(sys.modules[__name__])
        return


_answer_with_stacks()
_switch_guards_on()
_run_hidden_one()
