"""A command that is told to stop."""

from __future__ import annotations

import signal
import subprocess
import time

from tests.conftest import COMMAND_DEADLINE_S


def interrupted(controller: subprocess.Popen[str]) -> tuple[str, float]:
    """Press Ctrl-C: what it still said, and after how many seconds it had ended, with 130."""
    pressed = time.monotonic()
    controller.send_signal(signal.SIGINT)
    out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)
    took_s = time.monotonic() - pressed
    assert controller.returncode == 130, out + err
    return out, took_s
