"""A section of the report: one module that chooses what is told, one template that says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup

from orchestrator.report.view import RunView
from orchestrator.report.words import harmless, show_distance, show_value, show_where, state_words
from orchestrator.spec.quantity import show_duration, show_size


@dataclass(frozen=True)
class Section:
    """What stands in one place of the page, and what a reader does next because of it."""

    id: str
    title: str
    body: Markup
    next_action: str = ""


Builder = Callable[[RunView], Section | None]


def render(template: str, **facts: object) -> Markup:
    """A template of this room, escaped throughout."""
    text = templates("orchestrator.report.html").get_template(template).render(**facts)
    return Markup(text)  # noqa: S704 - autoescaped


@cache
def templates(package: str) -> jinja2.Environment:
    """The templates of a package, with the filters that all pages share."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        harmless=lambda text: harmless(str(text)),
        duration=show_duration,
        size=show_size,
        value=show_value,
        distance=show_distance,
        where=show_where,
        words=state_words,
    )
    return found
