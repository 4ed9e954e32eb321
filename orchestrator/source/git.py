"""The user's own git, called with arguments only, under a deadline, in a clean environment."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from orchestrator.errors import SourceError

# Hashing a large working copy takes time; nothing here may take for ever.
DEADLINE_S = 600.0

# A hook runs with GIT_INDEX_FILE, GIT_DIR and others set for its own purpose; ours differs.
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_CONFIG", "GIT_TRACE", "GIT_EXEC_PATH")

# Every command that writes an index may run filters, to tell whether a file was changed while git
# looked. An empty filter makes git-lfs files go in by content. An index of ours is never split: its
# shared part would stay in the user's git directory.
_WITH_OWN_INDEX = (
    *("-c", "filter.lfs.clean="),
    *("-c", "filter.lfs.process="),
    *("-c", "filter.lfs.required="),
    *("-c", "core.safecrlf=false"),
    *("-c", "core.splitIndex=false"),
)


@dataclass(frozen=True)
class Git:
    """git in one directory, optionally with an index file of its own."""

    directory: Path
    index: Path | None = None

    def run(
        self, *arguments: str, feed: bytes | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one git command.

        Raises:
            SourceError: git is missing, failed (with `check`), was stopped, or did not end in time.
        """
        options = () if self.index is None else _WITH_OWN_INDEX
        command = ["git", "-c", "core.quotePath=false", *options, *arguments]
        try:
            done = _ended(command, self.directory, _environment(self.index), feed)
        except FileNotFoundError as error:
            if not self.directory.is_dir():
                raise SourceError(f"no directory `{self.directory}`") from error
            raise SourceError(
                "git is not installed", expected="a `git` on PATH", fix="install git"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise SourceError(
                f"`git {_shown(arguments)}` did not end within {DEADLINE_S:.0f} s",
                fix="look for a hanging filter or file system, then try again",
            ) from error
        if check and done.returncode != 0:
            raise failure(arguments, done)
        return done

    def start(self, *arguments: str, feed: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command whose output is read as it comes; the caller ends it."""
        return subprocess.Popen(
            ["git", *arguments],
            cwd=self.directory,
            env=_environment(self.index),
            stdin=feed,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def text(self, *arguments: str, check: bool = True) -> str:
        """The output of a command, without the newline at its end."""
        done = self.run(*arguments, check=check)
        return os.fsdecode(done.stdout).rstrip("\n")

    def names(self, *arguments: str, feed: bytes | None = None) -> list[str]:
        """The NUL-separated names that a command prints (`-z` among its arguments)."""
        output = self.run(*arguments, feed=feed).stdout
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def with_index(self, index: Path) -> Git:
        return Git(self.directory, index)


def stop() -> None:
    """Kill what `run` waits for in other threads, whose callers hear of it as a failure."""
    for process in tuple(_running):
        process.kill()


_running: set[subprocess.Popen[bytes]] = set()


def _ended(
    command: Sequence[str], directory: Path, env: Mapping[str, str], feed: bytes | None
) -> subprocess.CompletedProcess[bytes]:
    # A filter that outlives git holds its standard error open: a file has no end to wait for.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        _running.add(process)
        with process:
            try:
                output, _ = process.communicate(feed, timeout=DEADLINE_S)
            except BaseException:
                process.kill()
                raise
            finally:
                _running.discard(process)
        errors.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output, errors.read())


_WAYS_OUT = {
    "dubious ownership": "run the `git config --global --add safe.directory ...` that git names",
    "index.lock": "another git command is running here; wait for it, or remove the stale lock file",
    "No space left": "free some disk space",
    "external filter": "repair the filter, or take it out of .gitattributes or the git config",
    "not a git repository: ": (
        "`git submodule update --init` mends a submodule, `git worktree repair` a worktree"
    ),
}


def failure(arguments: Iterable[str], done: subprocess.CompletedProcess[bytes]) -> SourceError:
    """What git said, with the way out where we know one."""
    said = os.fsdecode(done.stderr).strip() or os.fsdecode(done.stdout).strip()
    return SourceError(f"`git {_shown(tuple(arguments))}` failed: {said}", fix=way_out(said))


def way_out(said: str) -> str:
    """What a person can do about a message of git's; empty where we do not know."""
    return next((fix for part, fix in _WAYS_OUT.items() if part in said), "")


def name_list(names: Iterable[str]) -> bytes:
    """Names as git reads them from standard input with `-z` or `--pathspec-file-nul`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def _environment(index: Path | None) -> Mapping[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    kept.update(LC_ALL="C", GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0")
    # What `git replace` shows in the place of an object does not have that object's hash.
    kept["GIT_NO_REPLACE_OBJECTS"] = "1"
    if index is not None:
        kept["GIT_INDEX_FILE"] = str(index)
    return kept


def _shown(arguments: tuple[str, ...]) -> str:
    text = " ".join(arguments)
    return text if len(text) <= 100 else text[:97] + "..."
