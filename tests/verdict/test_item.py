"""A line of the verdict as programs read it."""

from __future__ import annotations

from tests.verdict.runs import entry, judged, measured


def test_json_leaves_out_what_is_empty_and_keeps_what_is_zero() -> None:
    item = judged(entry({"value": 100, "rel": "5%"}), measured(100.0))

    text = item.as_json()

    assert text["distance"] == 0.0
    assert "reason" not in text
    assert text["because"] == "it was so the last time"
