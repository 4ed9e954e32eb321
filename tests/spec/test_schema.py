from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.spec.schema import FILES, schema, schema_text

SCHEMAS = Path(__file__).resolve().parent.parent.parent / "schemas"


@pytest.mark.parametrize("kind", FILES)
def test_the_files_in_schemas_are_current(kind: str) -> None:
    written = (SCHEMAS / f"{kind}.schema.json").read_text("utf-8")

    assert written == schema_text(kind), "run `orch schema -o schemas`"


def test_editors_are_offered_the_keys_of_a_step() -> None:
    step = schema("experiment")["$defs"]["Step"]

    assert {"id", "run", "needs", "matrix", "timeout", "collect"} <= set(step["properties"])
    assert step["additionalProperties"] is False
    assert "description" in step["properties"]["timeout"]
