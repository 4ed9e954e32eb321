"""Ctrl-C while a run is followed: the first press, a second one in time, or none any more."""

from __future__ import annotations

import signal
import time

SECOND_PRESS_S = 3.0


class CtrlC:
    """Counts Ctrl-C without raising in the middle of anything."""

    def __init__(self) -> None:
        self._pressed: list[float] = []
        self._told = False
        self._cancelled = False

    def __enter__(self) -> CtrlC:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def is_news(self) -> bool:
        """The first press, told once."""
        news = bool(self._pressed) and not self._told
        self._told = self._told or news
        return news

    def is_pressed_twice(self) -> bool:
        """The second press in time, told once."""
        twice = len(self._pressed) >= 2 and not self._cancelled
        self._cancelled = self._cancelled or twice
        return twice

    def is_over(self) -> bool:
        """Pressed once, and the time for a second press has passed."""
        if self._cancelled or not self._pressed:
            return False
        return time.monotonic() - self._pressed[0] > SECOND_PRESS_S

    def _note(self, *_: object) -> None:
        self._pressed.append(time.monotonic())
