"""The failures of failures.yaml: a hang with an escaped grandchild, a crash, a refusal."""

from __future__ import annotations

import faulthandler
import subprocess
import sys
import threading
import time
from pathlib import Path


def hang() -> None:
    """Wait for an event that nobody sets, as a spinning kernel does, with company that escapes."""
    escaped = subprocess.Popen(["setsid", "sleep", "600"], start_new_session=True)
    print(f"escaped grandchild {escaped.pid}", flush=True)
    threading.Thread(target=time.sleep, args=(600,), name="companion", daemon=True).start()
    wait_for_a_signal_that_never_comes()


def wait_for_a_signal_that_never_comes() -> None:
    threading.Event().wait()


def crash() -> None:
    """Die of a bad memory access, like a kernel launched with a wrong pointer."""
    print("about to read address zero", flush=True)
    faulthandler._sigsegv()


def refuse() -> None:
    """Fail in the ordinary way, with a traceback."""
    print(f"working in {Path.cwd().name}")
    raise SystemExit("error: expected 64 experts, got 63")


if __name__ == "__main__":
    {"hang": hang, "crash": crash, "refuse": refuse}[sys.argv[1]]()
