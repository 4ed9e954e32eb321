"""Pages that many settings, long names and paper make narrow, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.report.html.page import page
from orchestrator.verdict.item import Item
from tests.browser import visit
from tests.report.html.sections.views import result, view

SETTINGS: dict[str, list[Any]] = {
    "many numbers": [64 * n for n in range(1, 25)],
    "far too many numbers": list(range(1000, 1300)),
    "long names": [f"{name}_tp8_16_long" for name in ("deepseek", "qwen3", "mixtral", "llama4")],
    "few numbers": [64, 128],
}
CLIPPED = """
() => [...document.querySelectorAll(".scroll")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.getAttribute("aria-label"))
"""


def written(folder: Path, settings: list[Any], *, items: list[Item] | None = None) -> str:
    results = [
        result("e2e", 600.0 + n, point={"setting": setting}) for n, setting in enumerate(settings)
    ]
    target = folder / "report.html"
    target.write_text(page(view(folder, results=results, items=items or [])), "utf-8")
    return target.as_uri()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_names_below_an_axis_lie_beside_each_other(
    tmp_path: Path, settings: list[Any], width: int
) -> None:
    with visit(written(tmp_path, settings), width=width, offline=True) as seen:
        names = seen.page.locator("svg.plot .tick[text-anchor=end]").count()
        assert seen.overlaps() == []
        assert names > 2


def test_nothing_is_cut_off_on_paper(tmp_path: Path) -> None:
    items = [
        Item(
            id=f"entry.with.a.long.name.{status}",
            status=status,
            metric="e2e",
            where={"experts": 256, "tokens": 2048, "rows": 128},
            measured=1128.5,
            unit="us",
            expected="1200 ±6 % us",
            distance=-1.2,
            because="Twice the rows, and " + "a reason of many words " * 12,
            decides="whether wide tails stay on at 512 rows an expert",
        )
        for status in ("miss", "hit")
    ]
    config = "HopperConfig(body=128, tail=32, stages=4, producer_registers=48, wide=False)"
    items.append(Item("config", "new", "config", {"shape": "mixtral_tp4"}, config, step="uniform"))
    with visit(written(tmp_path, [1, 2], items=items), width=718, offline=True) as seen:
        seen.page.emulate_media(media="print")
        seen.page.evaluate(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        assert seen.page.evaluate(CLIPPED) == []
        assert not seen.is_wider_than_the_window
        assert seen.page.get_by_text("HopperConfig").is_visible()
