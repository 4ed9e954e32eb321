"""The comparison for programs: JSON in the narrow sense."""

from __future__ import annotations

import json

from orchestrator.diff.comparison import Comparison, Named
from orchestrator.diff.conditions import Change, ConditionDiff
from orchestrator.verdict.conditions import Field


def test_numbers_that_json_cannot_spell_stay_as_text() -> None:
    strange = Field("value", [float("nan"), float("-inf"), 1.5], severity="condition")
    found = ConditionDiff((Change("x", "condition", strange, Field("unknown")),))
    side = Named("a", "run")

    text = json.dumps(Comparison(side, side, conditions=found).as_json(), allow_nan=False)

    assert json.loads(text)["conditions"]["changes"][0]["a"]["value"] == ["nan", "-inf", 1.5]
