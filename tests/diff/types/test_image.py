from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from orchestrator.diff.limits import Limits
from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.types.image import overlay
from tests.diff import makers
from tests.diff.conftest import Compare, write


def test_changed_pixels_have_a_box(compare: Compare) -> None:
    record = compare(makers.image(), makers.image((3, 4, 8, 6)), "x.png")

    assert record.locations[0].where == "5 x 2 pixels from (3, 4)"
    assert record.metrics["changed_pixels"] == 10
    assert record.metrics["changed_share"] == pytest.approx(10 / 1200)


def test_a_change_nobody_sees_is_told_from_one_everybody_sees(compare: Compare) -> None:
    faint = compare(makers.image(), makers.image((0, 0, 9, 9), ink=(254, 254, 254)), "x.png")
    strong = compare(makers.image(), makers.image((0, 0, 9, 9), ink="black"), "x.png")

    assert faint.metrics["changed_pixels"] == strong.metrics["changed_pixels"] == 81
    assert faint.metrics["visible_share"] == 0
    assert strong.metrics["perceptual_max"] > 0.9


def test_another_size_is_different_and_nothing_more_is_compared(compare: Compare) -> None:
    record = compare(makers.image(), makers.image(size=(41, 30)), "x.png")

    assert (record.locations[0].a, record.locations[0].b) == ("40 x 30", "41 x 30")
    assert record.metrics == {}


def test_more_pixels_than_allowed_are_not_decoded(compare: Compare) -> None:
    large = makers.image(size=(2000, 2000))

    record = compare(makers.image(), large, "x.png", limits=Limits(image_pixels=1_000_000))

    assert record.status == "skipped"
    assert "2000 x 2000" in record.note


def test_the_overlay_shows_the_changed_pixels(tmp_path: Path) -> None:
    a, b = (
        write(tmp_path / side, content)
        for side, content in (("a", makers.image()), ("b", makers.image((3, 4, 8, 6))))
    )

    with Image.open(io.BytesIO(overlay(a, b))) as shown:
        red, grey = shown.getpixel((4, 5)), shown.getpixel((20, 20))

    assert red[0] > 100
    assert red[1:] == (0, 0)
    assert grey == (255, 255, 255)


def test_no_overlay_of_two_sizes(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", makers.image()), write(tmp_path / "b", makers.image(size=(1, 1)))

    with pytest.raises(Unreadable, match="sizes differ"):
        overlay(a, b)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "JPEG", "WEBP", "TIFF"])
def test_a_cut_file_of_any_format_is_unreadable(kind: str, compare: Compare) -> None:
    whole = makers.image((3, 4, 38, 26), kind=kind)

    record = compare(makers.image(), whole[: len(whole) // 2], "x.png", type="image")

    assert record.status == "unreadable"
