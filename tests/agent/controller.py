"""A controller in a few words: starts a real agent, speaks frames with it, keeps what it says."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestrator.agent import bitmap, checkout, frames
from orchestrator.agent.frames import Data, Frame, Packer
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.plan import Job, Plan
from tests.agent.trees import Files, blob_hash, bodies, manifest, tree_hash

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 60.0
# Of this process alone: whoever ends a run ends every process on the host that has its mark.
RUN_ID = f"20260101-000000-exp-{os.getpid():x}"


def parcels(contents: Iterable[bytes]) -> bytes:
    """Blobs on their way: every second one as a loose object of git, the others as they are."""
    return b"".join(
        parcel(index, body, loose=bool(index % 2)) for index, body in enumerate(contents)
    )


def parcel(index: int, body: bytes, *, loose: bool = False) -> bytes:
    sent = zlib.compress(b"blob %d\0" % len(body) + body) if loose else body
    return struct.pack("!IBQQ", index, loose, len(sent), len(body)) + sent


def job(name: str, run: str | list[str], **more: Any) -> Job:
    """A job; its step is its name up to the first bracket."""
    facts: dict[str, Any] = {"timeout_s": 30.0, "round": 0, "point": {}, "folder": name, **more}
    return Job(id=name, step=name.partition("[")[0], run=run, **facts)


def plan(files: Files, *jobs: Job, run_id: str = RUN_ID, **more: Any) -> Plan:
    facts: dict[str, Any] = {"experiment": "exp", "caches": "isolated", **more}
    object_format = facts.setdefault("object_format", "sha1")
    tree = facts.pop("tree", None) or tree_hash(files, object_format)
    return Plan(run_id=run_id, tree=tree, jobs=list(jobs), **facts)


@dataclass
class Heard:
    """Everything a follower told until it said good-bye."""

    journal: bytes = b""
    bundle: bytes = b""
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal.splitlines()]

    def ended(self, job_id: str) -> dict[str, Any]:
        return next(e for e in self.events if e["event"] == "step_ended" and e["id"] == job_id)

    def notes(self, level: str) -> list[str]:
        return [e["text"] for e in self.events if e["event"] == "note" and e["level"] == level]

    def message(self, kind: str) -> dict[str, Any]:
        return next(m for m in self.messages if m["type"] == kind)


class Controller:
    """One conversation with one agent. Use as a context manager."""

    def __init__(
        self, root: Path, *, python: str = sys.executable, code: Path = ROOT, **env: str
    ) -> None:
        """Start an agent.

        Args:
            root: the agent's directory on this host.
            python: the interpreter that runs it; `code` is where it finds its modules.
        """
        self.root = root
        program = "from orchestrator.agent.main import main; main()"
        self._agent = subprocess.Popen(
            [python, "-c", program],
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(code), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._agent.stdin is not None
        assert self._agent.stdout is not None
        self._sink = self._agent.stdin.fileno()
        self._source = self._agent.stdout.fileno()
        self._end = time.monotonic() + DEADLINE_S
        self._frames = frames.read_frames(self._read)
        self._packer = Packer()

    def __enter__(self) -> Controller:
        greeting = b""
        while len(greeting) < len(frames.GREETING):
            piece = self._read(len(frames.GREETING) - len(greeting))
            assert piece, self.last_words()
            greeting += piece
        assert greeting == frames.GREETING
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.vanish()

    # -- the link

    def vanish(self) -> None:
        """Cut the link from one moment to the next."""
        for stream in (self._agent.stdin, self._agent.stdout):
            assert stream is not None
            stream.close()
        try:
            self._agent.wait(DEADLINE_S)
        finally:
            self._agent.kill()
            self._agent.wait(10)
            assert self._agent.stderr is not None
            self._agent.stderr.close()

    def kill_agent(self) -> None:
        self._agent.kill()
        self._agent.wait(10)

    def last_words(self) -> str:
        assert self._agent.stderr is not None
        self._agent.kill()
        return self._agent.stderr.read().decode("utf-8", "replace")

    def _read(self, count: int) -> bytes:
        ready, _, _ = select.select([self._source], [], [], max(self._end - time.monotonic(), 0))
        assert ready, f"the agent was silent for too long; it said: {self.last_words()}"
        return os.read(self._source, count)

    def write(self, raw: bytes) -> None:
        view = memoryview(raw)
        while view:
            view = view[os.write(self._sink, view) :]

    # -- words

    def tell(self, kind: str, **facts: Any) -> None:
        self.write(frames.message({"type": kind, **facts}))

    def hello(self, action: str, **facts: Any) -> None:
        root = str(self.root)
        self.tell("hello", protocol=frames.PROTOCOL, action=action, root=root, **facts)

    def next(self) -> Frame:
        self._end = time.monotonic() + DEADLINE_S
        return next(self._frames)

    def expect(self, *kinds: str) -> dict[str, Any]:
        """The next message, which is of one of these types; its facts."""
        frame = self.next()
        assert not isinstance(frame, Data), f"data of `{frame.stream}`, expected {kinds}"
        assert frame["type"] in kinds, f"{frame}, expected {kinds}"
        return frame

    def ask(self, action: str, answer: str, **facts: Any) -> dict[str, Any]:
        self.hello(action, **facts)
        self.expect("welcome")
        return self.expect(answer)

    def send_stream(self, name: str, body: bytes, piece_bytes: int = 1000) -> None:
        for start in range(0, len(body), piece_bytes):
            piece = body[start : start + piece_bytes]
            self.write(self._packer.data(name, start, piece))
        self.tell(f"{name}_end")

    # -- a run

    def push(
        self,
        ordered: Plan,
        files: Files,
        *,
        secrets: dict[str, str] | None = None,
        ahead: Collection[bytes] = (),
    ) -> int:
        """Start a run; returns how many blobs the agent asked for, besides bodies sent ahead."""
        hash_of = partial(blob_hash, object_format=ordered.object_format)
        wanted = list(
            dict.fromkeys(e.blob for e in checkout.entries(manifest(files, ordered.object_format)))
        )
        unasked = [blob for blob in wanted if blob in {hash_of(body) for body in ahead}]
        presumed = bitmap.encode(wanted, unasked)
        self.hello("run", plan=ordered.to_json(), secrets=secrets or {}, ahead=presumed)
        self.send_stream("manifest", manifest(files, ordered.object_format))
        by_hash = {hash_of(body): body for body in bodies(files)}
        if unasked:
            self.send_stream("blobs", parcels(by_hash[blob] for blob in unasked))
        self.expect("welcome")
        need = self.expect("need")
        missing = bitmap.decode(wanted, need["bitmap"])
        assert len(missing) == need["count"]
        if missing:
            self.send_stream("blobs", parcels(by_hash[blob] for blob in missing))
        return len(missing)

    def frames_until(self, kind: str) -> Iterator[Frame]:
        while True:
            frame = self.next()
            yield frame
            if not isinstance(frame, Data) and frame["type"] == kind:
                return

    def follow(self, *, journal_at: int = 0, bundle_at: int = 0, confirm: bool = True) -> Heard:
        """Listen until the agent says good-bye; every byte must be at its place."""
        heard = Heard()
        at = {"journal": journal_at, "bundle": bundle_at}
        for frame in self.frames_until("bye"):
            if not isinstance(frame, Data):
                heard.messages.append(frame)
                if frame["type"] == "bundle_anew":
                    heard.bundle, at["bundle"] = b"", 0
                if frame["type"] == "bundle_end" and confirm:
                    self.tell("home")
                continue
            assert frame.offset == at[frame.stream], frame.stream
            at[frame.stream] += len(frame.body)
            if frame.stream == "journal":
                heard.journal += frame.body
            else:
                heard.bundle += frame.body
        return heard

    @property
    def run(self) -> RunFolder:
        return Root(str(self.root)).run(RUN_ID)


def run(
    root: Path, files: Files, *jobs: Job, secrets: dict[str, str] | None = None, **more: Any
) -> Heard:
    """Push a run and follow it to its end."""
    with Controller(root) as controller:
        controller.push(plan(files, *jobs, **more), files, secrets=secrets)
        controller.expect("started")
        return controller.follow()


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def supervisor_pid(folder: RunFolder) -> int:
    return int(json.loads(Path(folder.supervisor).read_text("utf-8"))["pid"])
