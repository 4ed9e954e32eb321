"""Whether the bundle on the host is still what was written there; disks and people change files."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Optional

from orchestrator.agent.layout import RunFolder


def facts_of(run: RunFolder) -> Optional[Mapping[str, Any]]:
    """What is known of a bundle that was finished; None when none was, or nobody can tell."""
    try:
        with open(run.bundle_facts, encoding="utf-8") as file:
            facts = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    is_complete = isinstance(facts, dict) and {"size", "manifest_sha256"} <= set(facts)
    return facts if is_complete else None


def is_whole(run: RunFolder) -> bool:
    """Whether the bundle was finished, and is there in its full length."""
    facts = facts_of(run)
    try:
        return facts is not None and os.path.getsize(run.bundle) == facts["size"]
    except FileNotFoundError:
        return False
