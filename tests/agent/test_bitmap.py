"""Some of a list of blobs, as a number."""

from __future__ import annotations

import pytest

from orchestrator.agent import bitmap


@pytest.mark.parametrize(
    ("blobs", "chosen", "text"),
    [
        ([], [], "0"),
        (["a"], [], "0"),
        (["a"], ["a"], "1"),
        (["a", "b", "c", "d", "e"], ["a", "e"], "11"),
        (["a", "b"], ["b"], "1"),
        (["a", "b"], ["a"], "2"),
    ],
)
def test_the_first_one_is_the_highest_bit(blobs: list[str], chosen: list[str], text: str) -> None:
    assert bitmap.encode(blobs, chosen) == text
    assert bitmap.decode(blobs, text) == chosen


@pytest.mark.parametrize(("blobs", "text"), [([], "1"), (["a", "b"], "4"), (["a"], "-1")])
def test_more_blobs_than_there_are(blobs: list[str], text: str) -> None:
    with pytest.raises(ValueError, match="no bit so high"):
        bitmap.decode(blobs, text)


def test_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        bitmap.decode(["a"], "some")
