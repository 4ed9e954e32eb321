"""JSON Schema of the three kinds of file, for editors: completion and checks while typing."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.spec.experiment import Experiment
from orchestrator.spec.hosts import Hosts
from orchestrator.spec.ledger import Ledger
from orchestrator.spec.model import Model

FILES: dict[str, type[Model]] = {"experiment": Experiment, "hosts": Hosts, "ledger": Ledger}


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one kind of file: experiment, hosts or ledger."""
    body = FILES[kind].model_json_schema()
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **_lenient(body)}


def schema_text(kind: str) -> str:
    return json.dumps(schema(kind), indent=2, ensure_ascii=False) + "\n"


def _lenient(node: Any) -> Any:
    """Let `x-` keys stand wherever unknown keys are refused, as the loader does."""
    if isinstance(node, dict):
        changed = {key: _lenient(value) for key, value in node.items()}
        if changed.get("additionalProperties") is False:
            changed["patternProperties"] = {"^x-": {}}
        return changed
    if isinstance(node, list):
        return [_lenient(item) for item in node]
    return node
