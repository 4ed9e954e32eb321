"""From a matrix to its points, in the order of the file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import Problem
from orchestrator.spec.document import Document, NodePath
from orchestrator.spec.experiment import Matrix
from orchestrator.spec.model import did_you_mean
from orchestrator.spec.words import show_in_id

Point = Mapping[str, Any]
MAX_POINTS = 100_000
"""Of the product, before anything is left out: it is gone through one by one."""


def points(matrix: Matrix | None) -> tuple[Point, ...]:
    """Every point once: the product of the axes, less `exclude`, then `include`.

    A step without a matrix has one point without axes; a matrix without axes only what it includes.
    """
    if matrix is None:
        return ({},)
    axes = matrix.axes
    product = itertools.product(*axes.values()) if axes else ()
    crossed = (dict(zip(axes, values, strict=True)) for values in product)
    kept = [point for point in crossed if not any(_has(point, e) for e in matrix.exclude)]
    order = list(axes) or list(matrix.include[0] if matrix.include else ())
    for extra in matrix.include:
        if extra.keys() != set(order):
            continue  # `problems` tells of it
        point = {axis: extra[axis] for axis in order}
        if not any(_same(point, other) for other in kept):
            kept.append(point)
    return tuple(kept)


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
        for index, value in enumerate(values):
            if any(_equal(value, earlier) for earlier in values[:index]):
                yield document.problem(
                    (*at, axis, index), f"`{axis}` lists `{value}` twice", "each value once"
                )
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
    for index, rule in enumerate(matrix.exclude):
        place = (*at, "exclude", index)
        for axis, value in rule.items():
            known = matrix.axes.get(axis)
            if known is None:
                yield document.problem(
                    (*place, axis),
                    f"`exclude` names the axis `{axis}`, which the matrix lacks",
                    "one of " + ", ".join(f"`{name}`" for name in matrix.axes),
                    did_you_mean(axis, matrix.axes),
                    of_key=True,
                )
            elif not any(_equal(value, one) for one in known):
                yield document.problem(
                    (*place, axis),
                    f"`exclude` names `{axis}: {value}`, which no point has",
                    "one of " + ", ".join(f"`{one}`" for one in known),
                )


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


def _has(point: Point, rule: Point) -> bool:
    return all(axis in point and _equal(point[axis], value) for axis, value in rule.items())


def _same(one: Point, other: Point) -> bool:
    return one.keys() == other.keys() and _has(one, other)


def _equal(one: Any, other: Any) -> bool:
    """YAML's `1`, `1.0`, `true` and `"1"` are four different values."""
    return type(one) is type(other) and bool(one == other)
