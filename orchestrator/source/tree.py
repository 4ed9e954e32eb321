"""A git tree as a list of files: what travels, under which name, with which hash."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.errors import InternalError, SourceError
from orchestrator.source.git import DEADLINE_S, Git

EXECUTABLE, SYMLINK, GITLINK = "100755", "120000", "160000"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One file of a tree: git's mode, the blob's hash, and the path with forward slashes."""

    mode: str
    blob: str
    path: str


def listing(git: Git, tree: str) -> bytes:
    """The tree as `git ls-tree -r -z` prints it: the manifest that travels to the host."""
    return git.run("ls-tree", "-r", "-z", "--full-tree", tree).stdout


def entries(manifest: bytes) -> list[Entry]:
    """The entries of a listing, in git's order."""
    found = []
    for record in manifest.split(b"\0"):
        if record:
            head, _, path = record.partition(b"\t")
            mode, _, blob = head.decode("ascii").split(" ")
            found.append(Entry(mode, blob, os.fsdecode(path)))
    return found


def differ(git: Git, revision: str, tree: str, *, besides: Iterable[str]) -> bool:
    """Whether a tree holds something else than a commit, outside of some files and directories.

    Without a commit nothing can be told: False.
    """
    if not revision:
        return False
    options = ("-r", "-z", "--name-only", "--no-renames")
    changed = git.names("diff-tree", *options, f"{revision}^{{tree}}", tree)
    left_out = {path.rstrip("/") for path in besides}
    return any(left_out.isdisjoint(_prefixes(path)) for path in changed)


def new_blobs(git: Git, old: str, new: str) -> list[str]:
    """Contents that came with the files in which two trees differ.

    Nothing when git does not know the old tree any more.
    """
    options = ("-r", "-z", "--no-renames", "--no-abbrev")
    done = git.run("diff-tree", *options, old, new, check=False)
    if done.returncode != 0:
        return []
    # Two fields a file: `:mode mode blob blob letter`, then its path.
    heads = [head.decode("ascii").split(" ") for head in done.stdout.split(b"\0")[::2] if head]
    before = {blob for _, _, blob, _, _ in heads}
    after = dict.fromkeys(blob for _, _, _, blob, letter in heads if letter != "D")
    return [blob for blob in after if blob not in before]


def _prefixes(path: str) -> Iterator[str]:
    """The path and every directory it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def sizes(git: Git, blobs: Iterable[str]) -> dict[str, int]:
    """Size in bytes of each blob."""
    feed = "".join(f"{blob}\n" for blob in blobs).encode("ascii")
    if not feed:
        return {}
    output = git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", feed=feed).stdout
    found = {}
    for line in output.decode("ascii").splitlines():
        name, _, size = line.partition(" ")
        if size == "missing":
            raise SourceError(
                f"git has lost the object {name}",
                fix="run `git fsck`, then `git add` the file anew",
            )
        found[name] = int(size)
    return found


def read_blobs(git: Git, blobs: Sequence[str]) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """The contents of many blobs through one git process: (hash, size, chunks) for each, in order.

    The chunks of one blob must be used up before the next one is asked for.

    Raises:
        SourceError: git lost an object or died.
    """
    if not blobs:
        return
    with tempfile.TemporaryFile() as names:
        # git reads the names from a file: with a pipe, it and we could wait for each other.
        names.write("".join(f"{blob}\n" for blob in blobs).encode("ascii"))
        names.seek(0)
        process = git.start("cat-file", "--batch", "--buffer", feed=names)
    assert process.stdout is not None
    try:
        for blob in blobs:
            size = _announced(process.stdout, blob)
            yield blob, size, _chunks(process.stdout, size)
    finally:
        process.stdout.close()
        process.kill()
        process.wait(timeout=DEADLINE_S)


def _announced(output: IO[bytes], blob: str) -> int:
    header = output.readline().decode("ascii").split()
    if len(header) != 3:
        raise SourceError(f"git could not read the object {blob}: {' '.join(header) or 'it ended'}")
    return int(header[2])


def _chunks(output: IO[bytes], size: int) -> Iterator[bytes]:
    left = size
    while left:
        chunk = output.read(min(left, _CHUNK))
        if not chunk:
            raise SourceError("git ended in the middle of an object")
        left -= len(chunk)
        yield chunk
    if output.read(1) != b"\n":
        raise InternalError("git cat-file printed something else than it announced")


def escaping_links(git: Git, found: Iterable[Entry]) -> list[tuple[str, str]]:
    """Symbolic links that point outside the tree, as (path, target)."""
    links = [entry for entry in found if entry.mode == SYMLINK]
    targets = {}
    for blob, _, chunks in read_blobs(git, list(dict.fromkeys(link.blob for link in links))):
        targets[blob] = os.fsdecode(b"".join(chunks))
    return [
        (link.path, targets[link.blob]) for link in links if _escapes(link.path, targets[link.blob])
    ]


def _escapes(path: str, target: str) -> bool:
    if target.startswith("/") or "\\" in target or Path(target).drive:
        return True
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return joined == ".." or joined.startswith("../")
