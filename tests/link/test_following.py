"""Following over links that break: again and again, but not for ever."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.agent.frames import Data, Frame
from orchestrator.errors import Unreachable
from orchestrator.link import following
from orchestrator.link.following import Arrived, Following, Lost, Receiving
from orchestrator.link.session import LinkLost
from orchestrator.spec.hosts import Host

END: Frame = {"type": "bundle_end", "size": 4, "manifest_sha256": "0"}


class Link:
    """Stands where a session stands: says these frames, then breaks, or says nothing more."""

    heard_at = 0.0

    def __init__(self, *frames: Frame, goes_silent: bool = False) -> None:
        self._frames = list(frames)
        self._goes_silent = goes_silent

    def next(self, _wait_s: float) -> Frame | None:
        if not self._frames and self._goes_silent:
            return None
        if not self._frames:
            raise LinkLost("cut")
        return self._frames.pop(0)

    def close(self) -> None:
        pass


@pytest.fixture
def follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], Link]], Following]:
    """A run followed over links of our own, tried again at once for a second."""
    monkeypatch.setattr(following, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(following, "_LONGEST_PAUSE_S", 0.001)

    def made(attach: Callable[[], Link]) -> Following:
        host = Host.model_validate({"via": ["sh"]})
        paths = {"journal": tmp_path / "journal", "bundle": tmp_path / "bundle"}
        found = Following("far", host, "run", patience_s=1.0, **paths)
        monkeypatch.setattr(found, "_attach", lambda borrow: attach())
        return found

    return made


def test_a_link_that_never_brings_anything_is_given_up(
    follow: Callable[[Callable[[], Link]], Following],
) -> None:
    with pytest.raises(Unreachable, match="within 1 s"):
        list(itertools.islice(follow(Link), 100_000))


def test_a_link_that_brings_a_piece_each_time_is_a_good_one(
    follow: Callable[[Callable[[], Link]], Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the clock is beyond the patience; what was brought in between counts."""
    now = 100.0
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(following.random, "uniform", lambda *_: 0.0)
    links = [Link(Data("bundle", at, b"x")) for at in range(4)] + [Link(END)]

    seen = []
    for update in follow(lambda: links.pop(0)):
        if isinstance(update, (Receiving, Lost, Arrived)):
            seen.append(type(update))
        if isinstance(update, Lost):
            now += 0.9

    assert seen == [Receiving, Lost] * 4 + [Arrived]


def test_a_link_that_held_for_long_is_a_good_one(
    follow: Callable[[Callable[[], Link]], Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(following.random, "uniform", lambda *_: 0.0)
    tail: Frame = {"type": "tail", "id": "a", "line": "b"}
    links = [Link(tail, tail) for _ in range(4)] + [Link(END)]

    ended = None
    for update in follow(lambda: links.pop(0)):
        ended = update
        if isinstance(update, following.Tail):
            now += following._HOLDS_S
        if isinstance(update, Lost):
            now += 0.9

    assert isinstance(ended, Arrived)


def test_a_link_that_swallows_everything_is_given_up(
    follow: Callable[[Callable[[], Link]], Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(100.0)
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(following.random, "uniform", lambda *_: 0.0)

    with pytest.raises(Unreachable, match="no word for 25 s"):
        list(itertools.islice(follow(lambda: Link(goes_silent=True)), 1000))


def test_bytes_of_a_frame_under_way_are_a_word(
    follow: Callable[[Callable[[], Link]], Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece of a bundle takes long over a slow link."""
    clock = itertools.count(100.0)
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    class Slow(Link):
        @property
        def heard_at(self) -> float:  # type: ignore[override]
            return next(clock)

        turns = 0

        def next(self, wait_s: float) -> Frame | None:
            self.turns += 1
            return super().next(wait_s) if self.turns > 200 else None

    ended = list(follow(lambda: Slow(END)))

    assert isinstance(ended[-1], Arrived)
    assert not any(isinstance(update, Lost) for update in ended)
