"""What stands before the agent's greeting: banners, and what start-up files print."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.agent.frames import GREETING, FrameError, StreamEnded

MAX_NOISE_BYTES = 1 << 20


def skip_noise(read: Callable[[int], bytes], noise: bytearray) -> None:
    """Read past the greeting, and not a byte further: what follows it belongs to the frames.

    Args:
        noise: receives everything before the greeting, also when none comes.

    Raises:
        StreamEnded: the stream ended before.
        FrameError: a megabyte of output, and no greeting in it.
    """
    while not noise.endswith(GREETING):
        piece = read(_safe_portion(noise))
        if not piece:
            raise StreamEnded("the stream ended before the agent greeted")
        noise += piece
        if len(noise) > MAX_NOISE_BYTES:
            raise FrameError("a megabyte of output and no greeting in it")
    del noise[-len(GREETING) :]


def _safe_portion(seen: bytearray) -> int:
    """How many bytes may be read without reading past the end of a greeting."""
    for length in range(min(len(GREETING), len(seen)), 0, -1):
        if seen.endswith(GREETING[:length]):
            return len(GREETING) - length
    return len(GREETING)
