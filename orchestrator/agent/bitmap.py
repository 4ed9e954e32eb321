"""Some of a list of blobs, in one number: hexadecimal, the first blob in the highest bit."""

from __future__ import annotations

from typing import Collection, Sequence


def encode(blobs: Sequence[str], chosen: Collection[str]) -> str:
    """The number that says which of the blobs are chosen."""
    among = frozenset(chosen)
    bits = "".join("1" if blob in among else "0" for blob in blobs)
    return f"{int(bits, 2):x}" if bits else "0"


def decode(blobs: Sequence[str], text: str) -> list[str]:
    """The chosen ones, in the order of the list.

    Raises:
        ValueError: the text is no such number, or names more blobs than there are.
    """
    number = int(text, 16)
    if number < 0 or number >> len(blobs):
        raise ValueError(f"a bitmap of {len(blobs)} blobs has no bit so high: {text[:40]}")
    bits = f"{number:0{len(blobs)}b}"
    return [blob for place, blob in enumerate(blobs) if bits[place] == "1"]
