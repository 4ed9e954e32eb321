"""Who may use the store: pushes together, a sweep alone, and nobody waits for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from orchestrator.agent import storelock
from orchestrator.agent.layout import Root

Use = Callable[[Root, float], AbstractContextManager[None]]


def test_pushes_use_it_together(tmp_path: Path) -> None:
    root = Root.at(str(tmp_path))

    with storelock.used(root, 0.0), storelock.used(root, 0.0):
        assert Path(f"{root.blobs}.lock").exists()


@pytest.mark.parametrize("first", [storelock.used, storelock.alone])
def test_a_sweep_waits_so_long_and_says_what_it_waited_for(tmp_path: Path, first: Use) -> None:
    root = Root.at(str(tmp_path))
    begun = time.monotonic()

    with (
        first(root, 0.0),
        pytest.raises(storelock.StoreBusy, match=r"blobs\.lock was held by others for 0\.2 s"),
        storelock.alone(root, 0.2),
    ):
        pytest.fail("two had the store, and one of them alone")

    assert 0.2 <= time.monotonic() - begun < 5


def test_it_is_free_after_the_last_one(tmp_path: Path) -> None:
    root = Root.at(str(tmp_path))
    with storelock.alone(root, 0.0):
        pass

    with storelock.alone(root, 0.0):
        assert Path(f"{root.blobs}.lock").exists()
