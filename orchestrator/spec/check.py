"""Mistakes that show only when the whole file is read: names, needs, deadlines, bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import Problem
from orchestrator.spec import matrix, template
from orchestrator.spec.document import Document, NodePath
from orchestrator.spec.experiment import Experiment, Step
from orchestrator.spec.ledger import Ledger
from orchestrator.spec.model import did_you_mean

MAX_JOBS = 10_000
# A hint compares a word with all that are known.
_MOST_HINTS = 100


def experiment_problems(experiment: Experiment, document: Document) -> Iterator[Problem]:
    """Mistakes of an experiment that no single key shows."""
    yield from _step_name_problems(experiment, document)
    yield from _need_problems(experiment, document)
    for index, step in enumerate(experiment.steps):
        at = ("steps", index)
        yield from matrix.problems(step.matrix, document, (*at, "matrix"))
        if matrix.is_too_large(step.matrix):
            continue
        yield from _timeout_problems(experiment, step, document, at)
        yield from _template_problems(step, document, (*at, "run"))
    if any(matrix.is_too_large(step.matrix) for step in experiment.steps):
        return
    total = sum(len(matrix.points(s.matrix)) * s.rounds for s in experiment.steps)
    if total > MAX_JOBS:
        yield document.problem(
            ("steps",),
            f"the file expands to {total} jobs",
            f"at most {MAX_JOBS}",
            "narrow an axis, or split the experiment",
        )


def _step_name_problems(experiment: Experiment, document: Document) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, step in enumerate(experiment.steps):
        # Some file systems do not tell `Sweep` from `sweep`, and the folders carry the names.
        key = step.id.lower()
        if key in seen:
            line, _ = document.place(("steps", seen[key], "id"))
            yield document.problem(
                ("steps", index, "id"),
                f"the step `{step.id}` stands twice",
                "a name used once",
                f"the other one is on line {line}",
            )
        seen.setdefault(key, index)


def _need_problems(experiment: Experiment, document: Document) -> Iterator[Problem]:
    known = {step.id: step for step in experiment.steps}
    unknown = 0
    for index, step in enumerate(experiment.steps):
        for position, need in enumerate(step.needs):
            if need not in known:
                unknown += 1
                yield document.problem(
                    ("steps", index, "needs", position),
                    f"no step is named `{need}`",
                    "the id of a step of this file",
                    did_you_mean(need, known) if unknown <= _MOST_HINTS else "",
                )
    cycle = () if unknown else _cycle(known)
    if cycle:
        index = next(i for i, s in enumerate(experiment.steps) if s.id == cycle[0])
        yield document.problem(
            ("steps", index, "needs"),
            "steps need each other: " + " -> ".join(cycle),
            "an order in which every step follows what it needs",
            "remove one of these needs",
        )


def _cycle(known: Mapping[str, Step]) -> tuple[str, ...]:
    """Steps that need each other, in a ring; thousands in a row are deeper than Python recurses."""
    done: set[str] = set()
    for first in known:
        trail = {} if first in done else {first: iter(known[first].needs)}
        while trail:
            name = next(reversed(trail))
            need = next(trail[name], None)
            if need is None:
                done.add(name)
                del trail[name]
            elif need in trail:
                names = list(trail)
                return (*names[names.index(need) :], need)
            elif need not in done:
                trail[need] = iter(known[need].needs)
    return ()


def _timeout_problems(
    experiment: Experiment, step: Step, document: Document, at: NodePath
) -> Iterator[Problem]:
    if step.timeout is None and experiment.timeout is None:
        yield document.problem(
            (*at, "id"),
            f"the step `{step.id}` has no deadline",
            "`timeout:` on the step or at the top of the file",
            "add `timeout: 10m`",
        )


def _template_problems(step: Step, document: Document, at: NodePath) -> Iterator[Problem]:
    axes = list(matrix.points(step.matrix)[0]) if matrix.points(step.matrix) else []
    strange = [name for name in template.names(step.run) if name not in axes]
    for name in strange:
        listed = ", ".join(f"`{axis}`" for axis in axes)
        yield document.problem(
            at,
            f"`{{{name}}}` is not an axis of the step `{step.id}`",
            f"one of {listed}" if axes else "a name of its matrix, which it does not have",
            did_you_mean(name, axes) or f"write `{{{{{name}}}}}` for a literal `{{{name}}}`",
        )
    if strange or not isinstance(step.run, str):
        return
    for point in matrix.points(step.matrix):
        hole = template.unsafe_hole(step.run, point)
        if hole:
            yield document.problem(
                at,
                f"`{{{hole.name}}}` stands in quotes, and `{point[hole.name]}` needs its own",
                "a bare placeholder, which is quoted for you",
                f'remove the quotes, or use "$ORCH_POINT_{hole.name.upper()}"',
            )
            return


def ledger_problems(
    experiment: Experiment, ledger: Ledger, document: Document
) -> Iterator[Problem]:
    """Entries that could never bind, told before the run rather than as `missing` after it."""
    if ledger.ledger != experiment.experiment:
        yield document.problem(
            ("ledger",),
            f"this ledger is for `{ledger.ledger}`",
            f"`ledger: {experiment.experiment}`, the experiment that names it",
        )
    bound = _Bound(experiment)
    for index, entry in enumerate(ledger.entries):
        at = ("entries", index)
        yield from _binding_problems(bound, entry.step, entry.where, document, at)
        reference = entry.expect.ratio_to
        if reference and reference.metric:
            place = (*at, "expect", "ratio_to")
            yield from _binding_problems(bound, reference.step, reference.where, document, place)


class _Bound:
    """The points of an experiment, gone through once for all entries that name the same axes."""

    def __init__(self, experiment: Experiment) -> None:
        self.steps = {step.id: step for step in experiment.steps}
        self._known: dict[tuple[str, ...], tuple[list[str], set[tuple[Any, ...]]]] = {}

    def may_hold(self, step: Step, where: matrix.Point) -> bool:
        """Whether a point of the step can agree with it; a program may add axes of its own."""
        asked = (step.id, *where)
        if asked not in self._known:
            points = matrix.points(step.matrix)
            shared = [axis for axis in where if points and axis in points[0]]
            self._known[asked] = shared, {tuple(p[axis] for axis in shared) for p in points}
        axes, held = self._known[asked]
        return tuple(where[axis] for axis in axes) in held


def _binding_problems(
    bound: _Bound, step: str | None, where: matrix.Point, document: Document, at: NodePath
) -> Iterator[Problem]:
    steps = bound.steps
    if step is not None and step not in steps:
        yield document.problem(
            (*at, "step"),
            f"the experiment has no step `{step}`",
            "the id of a step",
            did_you_mean(step, steps),
        )
        return
    candidates = [steps[step]] if step else list(steps.values())
    if any(bound.may_hold(candidate, where) for candidate in candidates):
        return
    named = f"the step `{step}`" if step else "the experiment"
    shown = ", ".join(f"{axis}: {value}" for axis, value in where.items())
    values = {axis: vs for c in candidates if c.matrix for axis, vs in c.matrix.axes.items()}
    known = "; ".join(f"{a}: {', '.join(map(str, vs))}" for a, vs in values.items() if a in where)
    yield document.problem(
        (*at, "where"),
        f"no point of {named} has {shown}",
        f"values of the matrix ({known})" if known else "values of the matrix",
    )
