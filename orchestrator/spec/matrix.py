"""From a matrix to its points, in the order of the file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from orchestrator.errors import Problem
from orchestrator.spec.document import Document, NodePath
from orchestrator.spec.experiment import Matrix
from orchestrator.spec.model import did_you_mean
from orchestrator.spec.words import show_in_id

Point = Mapping[str, Any]
Key = tuple[Any, ...]
MAX_POINTS = 100_000
"""Of the product, before anything is left out: it is gone through one by one."""
_MOST_SHOWN = 20


def points(matrix: Matrix | None) -> tuple[Point, ...]:
    """Every point once: the product of the axes, less `exclude`, then `include`.

    A step without a matrix has one point without axes; a matrix without axes only what it includes.
    """
    if matrix is None:
        return ({},)
    axes = matrix.axes
    product = itertools.product(*axes.values()) if axes else ()
    crossed = (dict(zip(axes, values, strict=True)) for values in product)
    kept = {_key(point, axes): point for point in _without(crossed, matrix.exclude)}
    order = list(axes) or list(matrix.include[0] if matrix.include else ())
    for extra in matrix.include:
        if extra.keys() != set(order):
            continue  # `problems` tells of it
        kept.setdefault(_key(extra, order), {axis: extra[axis] for axis in order})
    return tuple(kept.values())


def _without(crossed: Iterable[Point], rules: Iterable[Point]) -> Iterator[Point]:
    """The points that no rule leaves out; rules over the same axes are looked up at once."""
    left_out: dict[tuple[str, ...], set[Key]] = {}
    for rule in rules:
        over = tuple(sorted(rule))
        left_out.setdefault(over, set()).add(_key(rule, over))
    for point in crossed:
        if not any(point.keys() >= set(o) and _key(point, o) in k for o, k in left_out.items()):
            yield point


def is_too_large(matrix: Matrix | None) -> bool:
    """Whether its points are too many to be looked at."""
    return matrix is not None and _size(matrix) > MAX_POINTS


def _size(matrix: Matrix) -> int:
    return math.prod(len(values) for values in matrix.axes.values())


def point_id(step: str, point: Point) -> str:
    """`sweep[experts=64,tokens=512]`, or the step's own name where there are no axes."""
    if not point:
        return step
    return f"{step}[{','.join(f'{axis}={show_in_id(value)}' for axis, value in point.items())}]"


def problems(matrix: Matrix | None, document: Document, at: NodePath) -> Iterator[Problem]:
    """What is wrong with a matrix beyond its shape."""
    if matrix is None:
        return
    axes = matrix.axes
    if not axes and not any(matrix.include):
        yield document.problem(at, "the matrix has no axis", "`name: [values]`")
        return
    for axis, values in axes.items():
        seen: set[Key] = set()
        for index, value in enumerate(values):
            if (key := _typed(value)) in seen:
                yield document.problem(
                    (*at, axis, index), f"`{axis}` lists `{value}` twice", "each value once"
                )
            seen.add(key)
    if is_too_large(matrix):
        yield document.problem(
            at, f"the axes span {_size(matrix)} points", f"at most {MAX_POINTS}", "narrow an axis"
        )
        return
    yield from _exclude_problems(matrix, document, at)
    yield from _include_problems(matrix, document, at)
    if not points(matrix):
        yield document.problem(at, "`exclude` leaves no point", "at least one point")


def _exclude_problems(matrix: Matrix, document: Document, at: NodePath) -> Iterator[Problem]:
    axes = matrix.axes
    known = {axis: {_typed(value) for value in values} for axis, values in axes.items()}
    for index, rule in enumerate(matrix.exclude):
        place = (*at, "exclude", index)
        for axis, value in rule.items():
            if axis not in known:
                yield document.problem(
                    (*place, axis),
                    f"`exclude` names the axis `{axis}`, which the matrix lacks",
                    _one_of(axes),
                    did_you_mean(axis, axes),
                    of_key=True,
                )
            elif _typed(value) not in known[axis]:
                yield document.problem(
                    (*place, axis),
                    f"`exclude` names `{axis}: {value}`, which no point has",
                    _one_of(axes[axis]),
                )


def _one_of(choices: Collection[Any]) -> str:
    shown = ", ".join(f"`{choice}`" for choice in itertools.islice(choices, _MOST_SHOWN))
    return f"one of {shown}" + (", ..." if len(choices) > _MOST_SHOWN else "")


def _include_problems(matrix: Matrix, document: Document, at: NodePath) -> Iterator[Problem]:
    wanted = set(matrix.axes) or set(matrix.include[0] if matrix.include else ())
    for index, extra in enumerate(matrix.include):
        missing, strange = wanted - set(extra), set(extra) - wanted
        if missing or strange:
            words = [f"lacks `{axis}`" for axis in sorted(missing)]
            words += [f"has the unknown axis `{axis}`" for axis in sorted(strange)]
            yield document.problem(
                (*at, "include", index),
                f"an included point {' and '.join(words)}",
                "a value for each of " + ", ".join(f"`{axis}`" for axis in sorted(wanted)),
            )


def _key(point: Point, axes: Iterable[str]) -> Key:
    return tuple(_typed(point[axis]) for axis in axes)


def _typed(value: Any) -> Key:
    """YAML's `1`, `1.0`, `true` and `"1"` are four different values."""
    return type(value), value
