"""The files a review may show: those the manifests name, found by number and never by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.report.view import RunView

# What a browser may draw; all else is sent as plain text or as a download.
IMAGES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}
_WEBP = (b"RIFF", b"WEBP")


@dataclass(frozen=True)
class File:
    """A file of one side of the review."""

    key: str
    side: str
    path: str
    size: int
    place: Path

    @property
    def image_type(self) -> str:
        """The media type by its first bytes; empty when it is no image a browser should draw."""
        with self.place.open("rb") as file:
            head = file.read(16)
        if head[:4] == _WEBP[0] and head[8:12] == _WEBP[1]:
            return "image/webp"
        return next((kind for magic, kind in IMAGES.items() if head.startswith(magic)), "")

    @property
    def is_text(self) -> bool:
        with self.place.open("rb") as file:
            return b"\0" not in file.read(8192)


def files_of(side: str, view: RunView) -> dict[str, File]:
    """The evidence of a run by key; keys are counted, so that none can name another file."""
    found = {}
    for number, member in enumerate(sorted(view.members, key=lambda m: m.path)):
        place = view.folder.evidence / member.path
        if place.is_file() and not place.is_symlink():
            key = f"{side}{number}"
            found[key] = File(key, side, member.path, member.size, place)
    return found


def by_path(files: Mapping[str, File], side: str, path: str) -> File | None:
    return next((f for f in files.values() if f.side == side and f.path == path), None)
