"""Steps that wait for each other, or for a step that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.yaml import YamlFile, YamlNode, item, items, scalar

RULE = Rule(
    name="dependency-cycle",
    code="EXP011",
    title="`needs` names an unknown step or closes a circle",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="no order exists in which the steps could run, so `orch` refuses the file",
    help="name steps of this file only, and remove one `needs` of the circle",
    needs=(b"needs",),
)


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    steps: dict[str, list[YamlNode]] = {}
    for step in items(file.get("steps")):
        name = scalar(item(step, "id"))
        if name:
            steps[name] = list(items(item(step, "needs")))
    for needs in steps.values():
        for node in needs:
            word = scalar(node) or ""
            if word not in steps:
                near = difflib.get_close_matches(word, steps, 1)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                yield file.hit(file.at(node), f"no step is named `{word}`{hint}")
    circle = _circle({name: [scalar(n) or "" for n in needs] for name, needs in steps.items()})
    if circle:
        node = next(n for n in steps[circle[0]] if scalar(n) == circle[1])
        yield file.hit(file.at(node), f"steps need each other: {' -> '.join(circle)}")


def _circle(needs: dict[str, list[str]]) -> list[str]:
    """The first circle, its first name repeated at the end; [] when there is none."""
    done: set[str] = set()
    for root in needs:
        trail = [root]
        stack = [iter(needs[root])]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                done.add(trail.pop())
                stack.pop()
            elif following in trail:
                return [*trail[trail.index(following) :], following]
            elif following in needs and following not in done:
                trail.append(following)
                stack.append(iter(needs[following]))
    return []
