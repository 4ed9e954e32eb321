"""The types of artifacts: which module compares each, and how a file shows its type.

A type is one module with `compare(pair)`, and `check(pair)` that says whether a content that is the
same on both sides is what the type promises. Readers are imported when the first pair of their
type comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Protocol, cast

from orchestrator.diff import sniff
from orchestrator.diff.blob import Blob
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import needs
from orchestrator.spec.compare import CompareRule


class Reader(Protocol):
    """What a module of `orchestrator.diff.types` has."""

    def compare(self, pair: Pair) -> Record:
        """Compare two contents that are not byte for byte the same.

        Raises:
            Unreadable: a side is not what the type promises.
            Skipped: the pair is more than the limits allow, or a package is missing.
        """

    def check(self, pair: Pair) -> None:
        """Look at A alone, of a pair whose bytes are the same.

        Raises:
            Unreadable: the content is not what the type promises.
            Skipped: it is more than the limits allow, or a package is missing.
        """


MODULES: Mapping[str, str] = {
    "bytes": "opaque",
    "csv": "table",
    "image": "image",
    "json": "document",
    "kernels": "kernel_names",
    "npy": "array",
    "npz": "arrays",
    "pt": "checkpoint",
    "ptx": "ptx",
    "safetensors": "tensors",
    "sass": "sass",
    "text": "text",
    "trace": "trace",
    "yaml": "document",
}


def reader(kind: str) -> Reader:
    """The module that compares artifacts of a type.

    Raises:
        Skipped: a package it needs is not installed.
    """
    try:
        return cast(Reader, importlib.import_module(f"orchestrator.diff.types.{MODULES[kind]}"))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("orchestrator"):
            raise
        raise needs(error.name) from error


def kind_of(path: str, blob: Blob, rule: CompareRule) -> str:
    """The type of a file: declared by its rule, else by its first bytes, else by its name.

    Raises:
        Unreadable: it cannot be opened.
    """
    if rule.type is not None:
        return rule.type
    head = blob.head(sniff.HEAD_BYTES)
    return sniff.by_content(head, path) or sniff.by_name(path) or sniff.text_or_bytes(head)
