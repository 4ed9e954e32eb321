"""What a file is, told by its first bytes or by its name."""

from __future__ import annotations

import re
import zlib
from pathlib import PurePosixPath

HEAD_BYTES = 8192

_MAGIC = (
    (b"\x93NUMPY", "npy"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
)
_SUFFIXES = {
    ".bmp": "image",
    ".csv": "csv",
    ".gif": "image",
    ".jpeg": "image",
    ".jpg": "image",
    ".json": "json",
    ".jsonl": "json",
    ".log": "text",
    ".md": "text",
    ".ndjson": "json",
    ".npy": "npy",
    ".npz": "npz",
    ".png": "image",
    ".pt": "pt",
    ".pth": "pt",
    ".ptx": "ptx",
    ".safetensors": "safetensors",
    ".sass": "sass",
    ".tif": "image",
    ".tiff": "image",
    ".tsv": "csv",
    ".txt": "text",
    ".webp": "image",
    ".yaml": "yaml",
    ".yml": "yaml",
}
_PTX = re.compile(rb"^\s*\.version\s+\d+\.\d+\s*$.{0,400}^\s*\.target\s+sm_", re.M | re.S)
_SASS = re.compile(
    rb"^\s*code for sm_\d+|^\s*Function : \S|^\s*\.headerflags\b|^\s*\.elftype\b", re.MULTILINE
)
_PTXAS = re.compile(rb"^ptxas info\s+: ", re.MULTILINE)
_NAMES_FILE = re.compile(r"kernel[-_]?names?\b|(^|[-_.])kernels\.(txt|json|csv|log)$|\.kernels$")
# Bytes of a safetensors header: at most what its own library reads.
_MOST_HEADER_BYTES = 100_000_000


def by_content(head: bytes, path: str) -> str:
    """The type that the first bytes prove, or an empty string."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image"
    if head.startswith(b"BM") and path.lower().endswith(".bmp"):
        return "image"
    if head.startswith(b"PK\x03\x04"):
        return _zip_kind(head)
    if head.startswith(b"\x1f\x8b"):
        return "trace" if b'"traceEvents"' in _unpacked(head) else ""
    if _is_safetensors(head):
        return "safetensors"
    return _text_kind(head, path)


def by_name(path: str) -> str:
    """The type that a name promises, or an empty string."""
    name = PurePosixPath(path).name.lower()
    if name.endswith((".trace.json", ".trace.json.gz", ".pt.trace.json")):
        return "trace"
    return _SUFFIXES.get(PurePosixPath(name).suffix, "text" if name == "log" else "")


def text_or_bytes(head: bytes) -> str:
    """The last resort: UTF-8 or UTF-16 without NUL is text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    if b"\0" in head:
        return "bytes"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The head may end in the middle of a character.
        if error.start < len(head) - 4:
            return "bytes"
    return "text"


def is_lfs_pointer(head: bytes) -> bool:
    return head.startswith(b"version https://git-lfs.github.com/spec/")


def _zip_kind(head: bytes) -> str:
    name_length = int.from_bytes(head[26:28], "little")
    first = head[30 : 30 + name_length]
    if first.endswith(b".npy"):
        return "npz"
    return "pt" if first.endswith((b"/data.pkl", b"/.format_version", b"/byteorder")) else ""


def _unpacked(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    return len(head) > 9 and 2 <= length <= _MOST_HEADER_BYTES and head[8:10] in (b'{"', b"{}")


def _text_kind(head: bytes, path: str) -> str:
    if b"\0" in head:
        return ""
    if head.lstrip()[:1] in (b"{", b"[") and b'"traceEvents"' in head[:4096]:
        return "trace"
    if _NAMES_FILE.search(PurePosixPath(path).name.lower()):
        return "kernels"
    if _PTX.search(head):
        return "ptx"
    if path.lower().endswith((".sass", ".txt", ".ptxas")) and (
        _SASS.search(head) or _PTXAS.search(head)
    ):
        return "sass"
    return ""
