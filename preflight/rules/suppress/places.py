"""Spans of suppression comments, and the edit that removes one."""

from __future__ import annotations

from preflight.finding import Span
from preflight.suppressions import Suppression


def span(item: Suppression) -> Span:
    width = item.end_byte - item.start_byte
    return Span(
        item.line, item.column, item.line, item.column + width, item.start_byte, item.end_byte
    )
