"""One controller's visit: a run is pushed, started and followed, or followed again."""

from __future__ import annotations

import os
import shutil
from typing import Any, Mapping

from orchestrator.agent import bitmap, checkout, journal, parcels, spare, storelock
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.follow import Follower
from orchestrator.agent.frames import Data, FrameError
from orchestrator.agent.launch import Launch, Refusal
from orchestrator.agent.layout import Root, RunFolder, write_atomically
from orchestrator.agent.plan import Plan

_STORE_DEADLINE_S = 60.0


def run(link: Conversation, hello: Mapping[str, Any]) -> None:
    """Push a tree, start its supervisor, follow the run to its end.

    The supervisor is started first: it looks at the host while the tree arrives, and begins with
    the first job when the tree has been verified.
    """
    root = Root.at(hello["root"])
    plan = Plan.from_json(hello["plan"])
    folder = _new_run(root, plan)
    launch = Launch(link, root, folder, plan, hello.get("secrets", {}))
    try:
        _receive_tree(link, root, folder, plan, str(hello.get("ahead", "0")))
        _heed_a_change_of_mind(link)
        launch.go()
    except BaseException:
        # Nothing ran: a half-pushed run must not look like one that happened.
        launch.abandon()
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    link.tell("started")
    Follower(link, folder, journal_at=0, bundle_at=0).follow()


def attach(link: Conversation, hello: Mapping[str, Any]) -> None:
    """Follow a run that exists, from the bytes the controller has already."""
    folder = existing_run(Root.at(hello["root"]), hello["run_id"])
    journal_at, bundle_at = int(hello.get("journal_at", 0)), int(hello.get("bundle_at", 0))
    if journal_at > os.path.getsize(folder.journal):
        raise Refusal("other_journal", "the journal here is shorter than what is known of it there")
    link.tell("attached")
    Follower(link, folder, journal_at=journal_at, bundle_at=bundle_at).follow()


def _heed_a_change_of_mind(link: Conversation) -> None:
    """The last moment in which nothing has run.

    Raises:
        Refusal: the controller wants it no more.
        StreamEnded: the controller has gone before it could know that anything runs.
    """
    while link.waiting(0):
        frame = link.next()
        if not isinstance(frame, Data) and frame["type"] == "abandon":
            raise Refusal("abandoned", "the controller wants this run no more; nothing ran")


def existing_run(root: Root, run_id: str) -> RunFolder:
    """The folder of a run that has started here.

    Raises:
        Refusal: there is none of that name.
    """
    try:
        folder = root.run(run_id)
    except ValueError as error:
        raise Refusal("no_such_run", str(error)) from error
    if not os.path.exists(folder.journal):
        raise Refusal("no_such_run", f"this host has no run `{run_id}` under {root.path}")
    return folder


def _new_run(root: Root, plan: Plan) -> RunFolder:
    folder = root.run(plan.run_id)
    try:
        os.mkdir(folder.path)
    except FileExistsError:
        raise Refusal("run_exists", f"the run `{plan.run_id}` was started here before") from None
    write_atomically(folder.plan, plan.to_json())
    return folder


def _receive_tree(
    link: Conversation, root: Root, folder: RunFolder, plan: Plan, presumed: str
) -> None:
    """Take the tree in; `presumed` is the bitmap of what comes ahead of our answer."""
    manifest = b"".join(link.stream("manifest"))
    found = checkout.entries(manifest)
    with storelock.used(root, _STORE_DEADLINE_S):
        # Opened only now: what a sweep removed while we waited is not there any more.
        store = BlobStore(root.blobs, plan.object_format)
        wanted = list(dict.fromkeys(entry.blob for entry in found))
        ahead = _chosen(wanted, presumed)
        known = frozenset(ahead)
        missing = store.missing([blob for blob in wanted if blob not in known])
        link.tell(
            "need", count=len(missing), bitmap=bitmap.encode(wanted, missing), at=journal.now()
        )
        computed = checkout.root_hash(found, plan.object_format)
        if plan.tree != computed:
            raise checkout.TreeError(f"the tree has the hash {computed}, not {plan.tree}")
        _build(link, store, found, [ahead, missing], root.spares, folder.tree)
    with open(folder.manifest, "wb") as file:
        file.write(manifest)


def _build(
    link: Conversation,
    store: BlobStore,
    found: list[checkout.Entry],
    streams: list[list[str]],
    spares: str,
    target: str,
) -> None:
    """Write the tree: what a spare has not, from the store; the rest as its streams arrive."""
    top = os.fsencode(target)
    there = spare.claim(spares, found, target)
    checkout.make_folders(found, top)
    lacking = {blob for stream in streams for blob in stream}
    later: dict[str, list[checkout.Entry]] = {}
    now = []
    for entry in found:
        if entry.path in there:
            continue
        if entry.blob in lacking:
            later.setdefault(entry.blob, []).append(entry)
        else:
            now.append(entry)
    checkout.write(store, now, top)
    if lacking:
        with store.receive(os.path.basename(os.path.dirname(target))) as pack:
            for stream in filter(None, streams):
                for blob in parcels.receive(link.stream("blobs"), pack, stream):
                    for entry in later.get(blob, ()):
                        checkout.write_entry(store, entry, top)
    store.close()


def _chosen(wanted: list[str], presumed: str) -> list[str]:
    try:
        return bitmap.decode(wanted, presumed)
    except ValueError as error:
        raise FrameError(str(error)) from error
