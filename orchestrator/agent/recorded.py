"""What a step recorded in `$ORCH_RESULTS`: counted, and freed of the values of secrets."""

from __future__ import annotations

import json
import os
from typing import Sequence

from orchestrator.agent.logfile import Masker
from orchestrator.agent.plainfile import open_plain


def settle(path: str, secrets: Sequence[bytes]) -> int:
    """Mask the values of secrets in a file of results; returns how many lines it has.

    Raises:
        OSError: what lies there is no plain file.
    """
    try:
        source = open_plain(path)
    except FileNotFoundError:
        return 0
    with source:
        raw = source.readall()
    if secrets:
        masker = Masker([form for secret in secrets for form in _in_json(secret)])
        with open(f"{path}.part", "wb") as target:
            target.write(masker.mask(raw) + masker.rest())
        os.replace(f"{path}.part", path)
    return raw.count(b"\n")


def _in_json(secret: bytes) -> list[bytes]:
    """A value as it is, and as it may stand inside the quotes of a JSON text."""
    text = secret.decode("utf-8", "surrogateescape")
    quoted = [json.dumps(text), json.dumps(text, ensure_ascii=False)]
    return [secret, *(form[1:-1].encode("utf-8", "surrogateescape") for form in quoted)]
