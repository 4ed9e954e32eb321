"""How the processes of a run are held together: by the subreaper, and a control group if we may.

The subreaper and the marks find everything while the supervisor lives; the group also holds what a
killed supervisor leaves, and ends a tree in one stroke.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

from orchestrator.agent import processes
from orchestrator.agent.cgroup import Group, Unavailable

CGROUP, SUBREAPER, SESSION = "cgroup", "subreaper", "session"


class Containment:
    """The means of one run. From `begin` on there may be a group, which `end` removes."""

    def __init__(self) -> None:
        self._subreaper = processes.become_subreaper()
        self._group: Group | None = None
        self._why_no_group = ""

    def begin(self, run_id: str) -> None:
        """Make the run's control group where that can be done."""
        try:
            self._group = Group.of_run(run_id)
        except Unavailable as reason:
            self._why_no_group = str(reason)

    @property
    def facts(self) -> dict[str, Any]:
        """For the journal: the strongest means there is, and why it is not the strongest of all."""
        weaker = SUBREAPER if self._subreaper else SESSION
        return {
            "subreaper": self._subreaper,
            "containment": CGROUP if self._group else weaker,
            "cgroup": self._group.path if self._group else "",
            "no_cgroup": self._why_no_group,
        }

    @contextmanager
    def of_job(self, number: int, note: Callable[[str], None]) -> Iterator[Group | None]:
        """The control group of a job, while it runs.

        Args:
            note: hears why there is none, though the run has one.
        """
        group = self._child(number, note) if self._group else None
        try:
            yield group
        finally:
            if group:
                group.remove()

    def _child(self, number: int, note: Callable[[str], None]) -> Group | None:
        assert self._group is not None
        try:
            return self._group.child(str(number))
        except OSError as error:
            note(f"the step runs without a control group of its own: {error.strerror}")
            return None

    def end(self) -> None:
        """Remove the group; one that somebody survived in stays, for whoever looks for him."""
        if self._group:
            self._group.remove()
