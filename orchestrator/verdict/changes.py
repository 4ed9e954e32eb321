"""What changed from one round of a project to the next: the code, the host, and its identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.store.record import RunRecord
from orchestrator.verdict.conditions import ABSENT, Conditions, Field, differs

_IDENTITY = "identity"
_LONGEST = 24


def between(
    before: RunRecord, old: Conditions, after: RunRecord, new: Conditions
) -> tuple[str, ...]:
    """In words: `code`, `host a → b`, `caches a → b`, then every fact that is identity.

    A fact that only one of the two snapshots knows has changed, as it has for `orch diff`.
    """
    return (*_of_records(before, old, after, new), *_of_hosts(before, old, after, new))


def _of_records(
    before: RunRecord, old: Conditions, after: RunRecord, new: Conditions
) -> Iterator[str]:
    if before.tree.local != after.tree.local:
        yield "code"
    if before.host != after.host:
        yield f"host {before.host} → {after.host}"
    caches = _caches(before, old), _caches(after, new)
    if caches[0] != caches[1]:
        yield f"caches {caches[0]} → {caches[1]}"


def _caches(record: RunRecord, conditions: Conditions) -> str:
    """How the run was to keep its caches, and how it found them."""
    return ", ".join(filter(None, (record.caches, conditions.caches)))


def _of_hosts(
    before: RunRecord, old: Conditions, after: RunRecord, new: Conditions
) -> Iterator[str]:
    if not old.before or not new.before:
        if old.before or new.before:
            yield f"no snapshot of the host in {before.run_id if new.before else after.run_id}"
        return
    run_ids = before.run_id, after.run_id
    for name in sorted(old.before.keys() | new.before.keys()):
        one, other = old.before.get(name, ABSENT), new.before.get(name, ABSENT)
        if _IDENTITY not in (one.severity, other.severity) or not differs(one, other, run_ids):
            continue
        # Where a variable points into the run's own folder, `caches` has told of it already.
        if before.caches == after.caches or not _is_own_path(one, other, run_ids):
            yield _told_change(name, one, other)


def _is_own_path(one: Field, other: Field, run_ids: tuple[str, str]) -> bool:
    return any(run_id in str(f.value) for f, run_id in zip((one, other), run_ids, strict=True))


def _told_change(name: str, one: Field, other: Field) -> str:
    if isinstance(one.value, list) and isinstance(other.value, list):
        gone = [f"-{item}" for item in one.value if item not in other.value]
        come = [f"+{item}" for item in other.value if item not in one.value]
        return f"{name} {_short(' '.join((*gone, *come)) or 'in another order')}"
    texts = _told(one), _told(other)
    return f"{name} {texts[0]} → {texts[1]}" if texts[0] != texts[1] else f"{name} changed"


def _told(field: Field) -> str:
    if field is ABSENT:
        return "absent"
    if field.state != "value":
        return field.state.replace("_", " ")
    return _short(f"{_plain(field.value)} {field.unit}".rstrip())


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
