"""What a run recorded and what it planned, found by metric, step and point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from orchestrator.store.history import Exact, History, JobView, Point, exact
from orchestrator.store.results import Result

# A metric at one point of one step.
Place = tuple[str, str, Exact]


def place_of(result: Result) -> Place:
    """Where a result was measured."""
    return result.metric, result.step, exact(result.point)


def point_of(place: Place) -> dict[str, Any]:
    return {axis: value for axis, _, value in place[2]}


def equal(one: Any, other: Any) -> bool:
    """Equality in which `true` is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def holds(point: Point, where: Point) -> bool:
    """Whether a point lies where `where` says."""
    return all(axis in point and equal(point[axis], value) for axis, value in where.items())


def may_hold(planned: Point, where: Point) -> bool:
    """Whether a job could record something there; its process may add axes of its own."""
    return all(axis not in planned or equal(planned[axis], v) for axis, v in where.items())


class Recorded:
    """Results by what they say, so that none of many questions looks through all of them.

    `unreadable` is what else was recorded: nobody knows of which metric.
    """

    def __init__(
        self, results: Sequence[Result], history: History, unreadable: Sequence[str] = ()
    ) -> None:
        self.history = history
        self.unreadable = unreadable
        self._by_metric: dict[str, list[Result]] = {}
        self._by_axis: dict[tuple[str, str, Any], list[Result]] = {}
        for result in results:
            self._by_metric.setdefault(result.metric, []).append(result)
            for axis, value in result.point.items():
                self._by_axis.setdefault((result.metric, axis, value), []).append(result)

    def near(self, metric: str, where: Point) -> Sequence[Result]:
        """All results of the metric that may lie at `where`, in their order, and few others."""
        found: Sequence[Result] = self._by_metric.get(metric, ())
        for axis, value in where.items():
            found = min(found, self._by_axis.get((metric, axis, value), ()), key=len)
        return found

    def rounds_of(self, result: Result) -> Sequence[str]:
        """The jobs that passed in the place where this was recorded, one a round."""
        job = self.history.jobs.get(result.job)
        return self.history.passed.get((job.step, exact(job.point)), ()) if job else ()

    def planned_at(self, result: Result, where: Point) -> Sequence[Point]:
        """The points that the plan gives its step and that `where` leaves, its own first."""
        job = self.history.jobs.get(result.job)
        if job is None:
            return ()
        own = exact(job.point)
        beside = self._planned.near(job, where).items()
        return [job.point, *(p for key, p in beside if key != own and may_hold(p, where))]

    def axes_of(self, metric: str, step: str | None) -> Mapping[frozenset[str], str]:
        """The sets of axes under which a metric was recorded, each with a step that did."""
        shapes = self._shapes.get(metric, {})
        return {axes: own for own, axes in shapes if step in (None, own)}

    @cached_property
    def _shapes(self) -> Mapping[str, Mapping[tuple[str, frozenset[str]], None]]:
        shapes: dict[str, dict[tuple[str, frozenset[str]], None]] = {}
        for metric, results in self._by_metric.items():
            shapes[metric] = {(r.step, frozenset(r.point)): None for r in results}
        return shapes

    @cached_property
    def _planned(self) -> _Planned:
        return _Planned(self.history.jobs.values())


class _Planned:
    """The points of the plan by their step and by each value; a step's points share their axes."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self._of_step: dict[str, dict[Exact, Point]] = {}
        self._by_axis: dict[tuple[str, str, Any], dict[Exact, Point]] = {}
        for job in jobs:
            key = exact(job.point)
            self._of_step.setdefault(job.step, {})[key] = job.point
            for axis, value in job.point.items():
                self._by_axis.setdefault((job.step, axis, value), {})[key] = job.point

    def near(self, job: JobView, where: Point) -> Mapping[Exact, Point]:
        """All points of its step that `where` may leave, and few others."""
        found: Mapping[Exact, Point] = self._of_step[job.step]
        for axis in where.keys() & job.point.keys():
            found = min(found, self._by_axis.get((job.step, axis, where[axis]), {}), key=len)
        return found
