"""The `orch` command: arguments in, one call, words out."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from orchestrator.errors import InputError, InternalError, OrchError

# Of the disk or the file system that a user gave us, not of our code.
DETACHED, NOBODY_READS = 130, 141
_CANNOT_WRITE = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES)


def main() -> None:
    """Run the command line; the exit code is the error's own (see `orchestrator.errors`)."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from orchestrator import __version__

        print(f"orch {__version__}")
        return
    if os.environ.get("HOME") == "":
        # `~/.orch` would be a directory of the root; without a HOME the system is asked.
        del os.environ["HOME"]
    # One command is short: most of its objects live to its end, and looking for the others costs.
    gc.set_threshold(50_000)
    try:
        _require_a_place()
        _leave(_call())
    except KeyboardInterrupt:
        # Before the command has begun; it has an answer of its own to Ctrl-C.
        sys.exit(DETACHED)
    except OrchError as error:
        _say_error(str(error), error.detail)
        sys.exit(error.exit_code)
    except InternalError as error:
        _say_error(f"`orch` is broken; report this: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output left; nothing is lost, and nothing can be said any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(NOBODY_READS)
    except Exception as error:  # noqa: BLE001 - the last resort: told with its traceback
        if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
            _say_error(f"cannot write {error.filename or 'the output'}: {error.strerror}")
            sys.exit(InputError.exit_code)
        _say_error("`orch` is broken; report this", traceback.format_exc())
        sys.exit(InternalError.exit_code)


def _require_a_place() -> None:
    """Fail in a line where every path would fail with a traceback.

    Raises:
        InputError: the current directory has been deleted.
    """
    try:
        Path.cwd()
    except FileNotFoundError as gone:
        raise InputError(
            "the current directory has been deleted", fix="change to one that exists"
        ) from gone


def _leave(code: int) -> NoReturn:
    """End at once: taking the interpreter apart takes longer than many rounds' verdict."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _call() -> int:
    """Run the command; the exit code that it chose, or the one of a wrong argument."""
    from typer import Abort

    from orchestrator.cli.app import app

    try:
        code = app(standalone_mode=False)
    except Abort:
        return DETACHED
    except SystemExit:
        # What typer leaves with, in this mode, when the reader of our output has left.
        return NOBODY_READS
    except Exception as error:
        # A wrong argument; whose class that is depends on the version of typer.
        if isinstance(error, OrchError) or not hasattr(error, "show"):
            raise
        error.show()
        return int(getattr(error, "exit_code", InputError.exit_code))
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _say_error(text: str, detail: str = "") -> None:
    # Much of it may be what a host said.
    from orchestrator.report.words import harmless

    sys.stderr.write(f"orch: {harmless(text)}\n")
    if detail:
        sys.stderr.write(f"{harmless(detail)}\n")
