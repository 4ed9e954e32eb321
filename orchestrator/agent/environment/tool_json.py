"""Readings out of the JSON that AMD's and Hygon's tools print, which is rarely just JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, Optional

from orchestrator.agent.environment.field import Reading, lowered, missing, number, words


def parse_json(text: str) -> Any:
    """The JSON document in what a tool printed, after whatever it printed for people.

    Raises ValueError when there is none, or it is cut off or damaged.
    """
    start = re.search(r"^[ \t]*[\[{]", text, re.MULTILINE)
    if start is None:
        raise ValueError(f"no JSON in what it printed: {text.strip()[:200] or 'nothing'}")
    try:
        return json.loads(text[start.start() :])
    except (ValueError, RecursionError) as failure:
        raise ValueError(f"damaged JSON: {failure}") from failure


class Block:
    """A part of the document, from which readings are taken by path (`usage/gfx_activity`)."""

    def __init__(self, content: Any, source: str) -> None:
        self.content = content
        self.source = source

    def at(self, path: str) -> Any:
        """What lies at the path, None when it is absent.

        A text on the way is a marker that stands for the whole object (`"usage": "N/A"`).
        """
        here = self.content
        for step in path.split("/"):
            if isinstance(here, str):
                return here
            if not isinstance(here, Mapping) or step not in here:
                return None
            here = here[step]
        return here

    def words(self, path: str) -> Reading:
        return words(_text(self.at(path)), self.source)

    def mode(self, path: str) -> Reading:
        return lowered(_text(self.at(path)), self.source)

    def amount(self, path: str, scales: Mapping[str, float]) -> Reading:
        """A number, bare or as `{"value": 45, "unit": "W"}`."""
        value = self.at(path)
        if isinstance(value, Mapping):
            inner, unit = _text(value.get("value")), value.get("unit", "")
            told = inner is not None and missing(inner, self.source) is None
            return number(f"{inner} {unit}" if told else inner, self.source, scales)
        return number(_text(value), self.source, scales)


def _text(value: Any) -> Optional[str]:
    return None if value is None else str(value)
