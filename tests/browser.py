"""A real Chromium for tests of pages, and the checks a reader's eye would make."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

# Text that is drawn on other text: boxes of two text nodes that share more than a sliver.
_OVERLAPS = """
() => {
  const both = (a, b) => ({
    left: Math.max(a.left, b.left), right: Math.min(a.right, b.right),
    top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom),
  });
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, holder = node.parentElement;
    if (!node.textContent.trim() || !holder.checkVisibility({ visibilityProperty: true })) continue;
    if (["SCRIPT", "STYLE", "TITLE", "OPTION"].includes(holder.tagName.toUpperCase())) continue;
    if (holder.closest(".skip, .top, thead, title, textarea")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let clip = null;
    for (let up = holder; up; up = up.parentElement) {
      if (getComputedStyle(up).overflow !== "visible" && up.tagName !== "svg") {
        const own = up.getBoundingClientRect();
        clip = clip ? both(clip, own) : own;
      }
    }
    for (const raw of range.getClientRects()) {
      const box = clip ? both(raw, clip) : raw;
      if (box.right - box.left > 1 && box.bottom - box.top > 1) {
        boxes.push({ node, text: node.textContent.trim().slice(0, 40), box });
      }
    }
  }
  boxes.sort((a, b) => a.box.top - b.box.top);
  const found = [];
  for (let i = 0; i < boxes.length; i += 1) {
    for (let j = i + 1; j < boxes.length && boxes[j].box.top < boxes[i].box.bottom; j += 1) {
      const a = boxes[i], b = boxes[j];
      if (a.node === b.node) continue;
      const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (wide > 2 && high > 4) found.push(`${a.text} / ${b.text}`);
    }
  }
  return found.slice(0, 10);
}
"""


def find_chromium() -> str | None:
    """The browser; `ORCH_TEST_CHROMIUM` names another one."""
    chosen = os.environ.get("ORCH_TEST_CHROMIUM")
    return chosen or next((path for name in _NAMES if (path := shutil.which(name))), None)


@dataclass
class Visit:
    """A page that is open, what it said, and what it asked the network for."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def overlaps(self) -> list[str]:
        return list(self.page.evaluate(_OVERLAPS))

    @property
    def is_wider_than_the_window(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def accessibility_problems(self) -> list[str]:
        """What axe finds: rule, and the first element that breaks it."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found]


@contextmanager
def visit(
    url: str, *, width: int = 1280, dark: bool = False, offline: bool = False
) -> Iterator[Visit]:
    """Open a page in a fresh profile; skips where there is no browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on this machine: install chromium")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(_QUIET))
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            offline=offline,
        )
        context.set_default_timeout(20_000)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda said: seen.messages.append(said.text))
        seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(url)
        yield seen
        browser.close()
