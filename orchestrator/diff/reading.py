"""One pair to one record, whatever happens: what every caller, confined or not, goes through."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.diff import registry, sniff
from orchestrator.diff.blob import Blob, identical
from orchestrator.diff.limits import Limits
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import Skipped, Unreadable
from orchestrator.spec.compare import CompareRule
from orchestrator.spec.quantity import show_size

# Up to here a content that is the same on both sides is still read once, to see that it is whole.
_CHECKED_BYTES = 64 << 20


def compare(path: str, a: Blob, b: Blob, rule: CompareRule, limits: Limits) -> Record:
    """Compare two blobs: bytes first, then by type."""
    pair = Pair(path, rule.type or "bytes", a, b, rule, limits)
    try:
        kinds = _kinds(pair)
        if kinds[0] != kinds[1]:
            return _of_two_types(pair, kinds)
        pair = replace(pair, type=kinds[0])
        # Where NaN is a difference, equal bytes may hold one.
        if identical(a, b) and rule.nan == "equal":
            return _equal(pair)
        if max(a.size, b.size) > rule.max_bytes and pair.type != "bytes":
            raise Skipped(
                f"the bytes differ; {show_size(max(a.size, b.size))} are more than the"
                f" {show_size(rule.max_bytes)} that are compared by type"
            )
        return registry.reader(pair.type).compare(pair)
    except Unreadable as error:
        return pair.record("unreadable", note=str(error))
    except Skipped as error:
        return pair.record("skipped", note=str(error))
    except MemoryError:
        return pair.record(
            "skipped", note=f"needs more memory than the {show_size(limits.memory_bytes)} allowed"
        )
    except RecursionError:
        return pair.record("unreadable", note="it is nested deeper than can be read")


def _kinds(pair: Pair) -> tuple[str, str]:
    pair.read(_refuse_pointer)
    return pair.read(lambda blob: registry.kind_of(pair.path, blob, pair.rule))


def _of_two_types(pair: Pair, kinds: tuple[str, str]) -> Record:
    """Two types side by side have nothing in common but their bytes."""
    record = registry.reader("bytes").compare(pair)
    return replace(record, note=f"A is {kinds[0]}, B is {kinds[1]}")


def _refuse_pointer(blob: Blob) -> None:
    if sniff.is_lfs_pointer(blob.head(64)):
        raise Unreadable("is a git-lfs pointer, not the file: `git lfs pull` brings it")


def _equal(pair: Pair) -> Record:
    """Equal bytes; but a content that is broken on both sides is evidence of nothing."""
    if pair.a.size > min(_CHECKED_BYTES, pair.rule.max_bytes):
        return pair.record("equal", note="the bytes are the same; too large to be read twice")
    try:
        registry.reader(pair.type).check(pair)
    except Skipped as error:
        return pair.record("equal", note=f"the bytes are the same; not looked into: {error}")
    except Unreadable as error:
        raise Unreadable(f"the bytes are the same on both sides, and broken: {error}") from error
    return pair.record("equal")
