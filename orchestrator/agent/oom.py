"""Whether the kernel killed for lack of memory, by its own count."""

from __future__ import annotations

from orchestrator.agent import cgroup


def kills() -> int | None:
    """How often it did in our control group and below; None where it does not say."""
    try:
        path = f"{cgroup.own_folder()}/memory.events"
        with open(path, encoding="ascii") as file:
            counts = dict(line.split() for line in file)
        return int(counts["oom_kill"])
    except (OSError, KeyError, ValueError, cgroup.Unavailable):
        return None


def happened_since(before: int | None) -> bool | None:
    """Whether there is one more than `before`; None when either count is not known."""
    after = kills()
    return None if before is None or after is None else after > before
