"""The agent's entrance: greets, hears what is wanted, does it, and says plainly when it cannot."""

from __future__ import annotations

import importlib
import os
import platform
import signal
import sys
import traceback
from typing import Any

from orchestrator.agent.blobs import BlobError
from orchestrator.agent.checkout import TreeError
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.frames import PROTOCOL, FrameError, StreamEnded
from orchestrator.agent.launch import Refusal
from orchestrator.agent.reserve import is_full
from orchestrator.agent.storelock import StoreBusy

# Where each action lives; only the one that is asked for is imported.
ACTIONS = {
    "run": "session.run",
    "attach": "session.attach",
    "list": "inspect.list_runs",
    "status": "inspect.status",
    "plan": "inspect.plan",
    "cancel": "inspect.cancel",
    "logs": "inspect.logs",
    "sweep": "sweep.sweep",
    "checkup": "checkup.checkup",
}
# A connection that is kept open waits for minutes, and nearly always for a run.
_OF_A_RUN = ("session", "supervisor", "environment.snapshot", "bundle", "telling")


def main() -> None:
    """Serve one controller on standard input and output, then end."""
    # The link breaks by itself; a write must say so instead of killing us.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    link = Conversation(_own(0, os.devnull, os.O_RDONLY), _own(1, os.devnull, os.O_WRONLY))
    try:
        link.greet()
        _serve(link)
    except StreamEnded:
        # The laptop is asleep, or gone; what was started goes on without it.
        return


def _serve(link: Conversation) -> None:
    hello: dict[str, Any] = {}
    try:
        _use_the_wait(link)
        hello = link.expect("hello")
        link.set_compression(bool(hello.get("compress", True)))
        if hello.get("protocol") != PROTOCOL:
            text = f"this agent speaks protocol {PROTOCOL}, not {hello.get('protocol')}"
            raise Refusal("protocol", text)
        link.tell("welcome", protocol=PROTOCOL, **host_facts())
        module, _, function = ACTIONS[hello["action"]].partition(".")
        action = getattr(importlib.import_module(f"orchestrator.agent.{module}"), function)
        action(link, hello)
    except Refusal as refusal:
        link.tell("refused", code=refusal.code, text=str(refusal))
    except (BlobError, TreeError, FrameError, StoreBusy) as error:
        link.tell("refused", code=type(error).__name__, text=str(error))
    except OSError as error:
        code = "disk_full" if is_full(error) else "os"
        # A failing write does not name its file.
        place = error.filename or os.path.expanduser(str(hello.get("root", "")))
        link.tell("refused", code=code, text=f"{error.strerror}: {place}")
    except StreamEnded:
        raise
    except Exception as error:  # noqa: BLE001 - told to the controller with its traceback
        link.tell("broken", text=repr(error), traceback=traceback.format_exc())


def _use_the_wait(link: Conversation) -> None:
    """Load what a run needs while nobody asks for anything; its supervisor is forked with it."""
    for module in _OF_A_RUN:
        if link.waiting(0):
            return
        importlib.import_module(f"orchestrator.agent.{module}")


def host_facts() -> dict[str, Any]:
    """What the controller shows of the other end."""
    return {
        "host": platform.node(),
        "system": platform.system(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "user": os.environ.get("USER") or str(os.getuid()),
    }


def _own(standard: int, replacement: str, flags: int) -> int:
    """Keep a standard stream for the protocol alone: a stray print or read must not reach it."""
    kept = os.dup(standard)
    instead = os.open(replacement, flags)
    os.dup2(instead, standard)
    os.close(instead)
    return kept
