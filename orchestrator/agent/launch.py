"""Starting the supervisor: a process that depends on no session, terminal or link.

It is forked before the tree is here, so that it can look at the host meanwhile, and waits for the
word `go`. When the session dies before that word, the run never was.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import traceback
from typing import Callable, Mapping

from orchestrator.agent import journal, runlock
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.layout import Root, RunFolder, write_atomically
from orchestrator.agent.plan import Plan

_PAYLOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "payload")
_GO = b"go"
_READY = b"ready"
_ENDING_S = 10.0


class Refusal(Exception):
    """The host will not do what it was asked; `code` is for programs, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Launch:
    """A supervisor that is under way: `go` lets it begin, `abandon` ends it unseen."""

    def __init__(
        self,
        link: Conversation,
        root: Root,
        folder: RunFolder,
        plan: Plan,
        secrets: Mapping[str, str],
    ) -> None:
        go_read, self._go = os.pipe()
        self._ready, ready_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(self._go)
            os.close(self._ready)
            # Whoever carries the link waits until nobody holds its streams any more.
            link.close()
            _detach(lambda: _supervise(root, folder, plan, secrets, go_read, ready_write))
        os.close(go_read)
        os.close(ready_write)
        os.waitpid(child, 0)
        self._under_way = True

    def go(self) -> None:
        """The tree is verified: begin. Returns when the journal says that the run has started.

        Raises:
            Refusal: the supervisor could not start; the text says why.
        """
        # A supervisor that has ended already says why below.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, _GO)
        os.close(self._go)
        self._under_way = False
        with os.fdopen(self._ready, "rb") as ready:
            word = ready.read()
        if word != _READY:
            text = word.decode("utf-8", "replace") or "no word"
            raise Refusal("no_start", f"the supervisor did not start: {text}")

    def abandon(self) -> None:
        """End the supervisor before it began, and wait for that a while; harmless after `go`.

        Until it has ended it may still make files in a folder that is about to be removed.
        """
        if not self._under_way:
            return
        self._under_way = False
        os.close(self._go)
        select.select([self._ready], [], [], _ENDING_S)
        os.close(self._ready)


def _detach(body: Callable[[], None]) -> None:
    """Double fork: the grandchild belongs to nobody's terminal, session or process group."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        body()
    except BaseException:  # noqa: BLE001 - the log is all there is
        traceback.print_exc()
    finally:
        os._exit(0)


def _supervise(
    root: Root, folder: RunFolder, plan: Plan, secrets: Mapping[str, str], go: int, ready: int
) -> None:
    try:
        _redirect(folder.supervisor_log)
        # Imported here: the session, which waits for bytes, does not need all this.
        from orchestrator.agent.supervisor import Supervisor

        lock = runlock.hold(folder)
        facts = f'{{"pid": {os.getpid()}, "started_at": "{journal.now()}"}}'
        write_atomically(folder.supervisor, facts)
        shutil.copytree(_PAYLOAD, folder.payload, ignore=shutil.ignore_patterns("__pycache__"))
        supervisor = Supervisor(root, folder, plan, secrets)
        supervisor.prepare()
        if os.read(go, len(_GO)) != _GO:
            shutil.rmtree(folder.path, ignore_errors=True)
            return
        supervisor.announce()
    except BaseException as error:
        if _is_abandoned(go):
            shutil.rmtree(folder.path, ignore_errors=True)
        os.write(ready, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        raise
    os.write(ready, _READY)
    os.close(ready)
    supervisor.run()
    os.close(lock)
    supervisor.provide_for_the_next_run()


def _is_abandoned(go: int) -> bool:
    """Whether nobody can say any more that the run shall begin."""
    told, _, _ = select.select([go], [], [], 0)
    return bool(told) and os.read(go, len(_GO)) != _GO


def _redirect(log: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.stdout = sys.stderr
