"""The `orch` command: arguments in, one call, words out."""

from __future__ import annotations

import os
import sys
import traceback

from orchestrator.errors import InternalError, OrchError


def main() -> None:
    """Run the command line; the exit code is the error's own (see `orchestrator.errors`)."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from orchestrator import __version__

        print(f"orch {__version__}")
        return
    from orchestrator.cli.app import app

    try:
        app(standalone_mode=True)
    except OrchError as error:
        _say_error(str(error), error.detail)
        sys.exit(error.exit_code)
    except InternalError as error:
        _say_error(f"`orch` is broken; report this: {error}")
        sys.exit(error.exit_code)
    except Exception:  # noqa: BLE001 - the last resort: the whole traceback, and an exit code of its own
        _say_error("`orch` is broken; report this", traceback.format_exc())
        sys.exit(InternalError.exit_code)
    except BrokenPipeError:
        # The reader of our output left; nothing is lost, and nothing can be said any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _say_error(text: str, detail: str = "") -> None:
    sys.stderr.write(f"orch: {text}\n")
    if detail:
        sys.stderr.write(f"{detail}\n")
