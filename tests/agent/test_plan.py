"""The plan: one document, read back exactly, or refused."""

from __future__ import annotations

import json

import pytest

from orchestrator.agent.plan import Activation, Job, Plan, Stop, steps_of

PLAN = Plan(
    run_id="20260101-000000-exp-aaaa",
    experiment="exp",
    tree="a" * 40,
    object_format="sha1",
    caches="isolated",
    jobs=[
        Job(
            id="a[n=1]",
            step="a",
            point={"n": 1, "word": "two words", "flag": True},
            round=0,
            folder="a-n1",
            run=["python", "-m", "x"],
            timeout_s=1.5,
            stop=Stop("INT", 0.0),
            collect=["out/**"],
        ),
        Job(id="b", step="b", point={}, round=0, folder="b", run="echo ü", timeout_s=10.0),
        Job(id="a[n=2]", step="a", point={"n": 2}, round=0, folder="a-n2", run="x", timeout_s=1.0),
    ],
    needs={"b": ["a"]},
    env={"X": "1"},
    secrets=["TOKEN"],
    activation=Activation(venv="~/venv", modules=["cuda/12"], env={"Y": "2"}),
    code={"revision": "abc"},
)


def test_is_read_back_as_it_was_written() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN


def test_is_the_same_text_for_the_same_plan() -> None:
    assert Plan.from_json(PLAN.to_json()).to_json() == PLAN.to_json()


def test_holds_the_names_of_secrets_and_no_place_for_values() -> None:
    document = json.loads(PLAN.to_json())

    assert document["secrets"] == ["TOKEN"]


@pytest.mark.parametrize("schema", [None, 0, 2, "1"])
def test_of_another_schema_is_refused(schema: object) -> None:
    document = {**json.loads(PLAN.to_json()), "schema": schema}

    with pytest.raises(ValueError, match="plan of schema"):
        Plan.from_json(json.dumps(document))


def test_steps_come_in_the_order_in_which_they_start() -> None:
    assert steps_of(PLAN) == ("a", "b")
