"""Which variables a step finds: whose word counts more, and what it must not inherit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import jobenv
from orchestrator.agent.layout import RunFolder
from tests.agent.controller import job, plan

FOLDER = RunFolder("/runs/r")


def of_job(shared: dict[str, str], gpus: list[dict[str, Any]] | None = None, **more: Any) -> Any:
    return jobenv.of_job(
        shared, job("s[a=1]", "true", **more), "r/0", "/runs/r/steps/s", gpus or []
    )


def test_the_shell_that_started_the_agent_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLDPWD", "SHLVL", "ORCH_GUARDS", "ORCH_POINT_ROWS", "KEPT"):
        monkeypatch.setenv(name, "x")

    found = jobenv.inherited()

    assert found["KEPT"] == "x"
    assert found["PATH"] == os.environ["PATH"]
    assert not {"OLDPWD", "SHLVL", "ORCH_GUARDS", "ORCH_POINT_ROWS"} & set(found)


@pytest.mark.parametrize(
    "left", [{}, {"CUDA_VISIBLE_DEVICES": "0,1"}, {"ROCR_VISIBLE_DEVICES": "3"}]
)
def test_a_run_started_by_a_step_is_left_what_that_step_s_run_was(
    left: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the step's own GPUs, which are taken, and none beside the host's allocation."""
    uuid = "GPU-00000000-1111-2222-3333-444444444444"

    monkeypatch.setattr(os, "environ", of_job({"A": "b", **left}, [{"index": 1, "uuid": uuid}]))
    found = jobenv.inherited()

    assert os.environ["CUDA_VISIBLE_DEVICES"] == uuid
    assert {name: value for name, value in found.items() if "VISIBLE" in name} == left
    assert found["A"] == "b"
    assert not [name for name in found if name.startswith("ORCH_GPU")]


def test_the_experiment_overrides_the_caches_and_they_the_host() -> None:
    activated = {"A": "host", "B": "host", "C": "host"}
    ordered = plan({}, env={"C": "experiment"})

    env = jobenv.of_run(activated, {"B": "cache", "C": "cache"}, ordered, FOLDER)

    assert (env["A"], env["B"], env["C"]) == ("host", "cache", "experiment")
    assert of_job(env, env={"C": "step"})["C"] == "step"


@pytest.mark.parametrize(
    ("given", "path"), [("", FOLDER.payload), ("/lib", f"{FOLDER.payload}{os.pathsep}/lib")]
)
def test_our_modules_come_first_and_the_others_stay(given: str, path: str) -> None:
    env = jobenv.of_run({"PYTHONPATH": given} if given else {}, {}, plan({}), FOLDER)

    assert env["PYTHONPATH"] == path
    assert (env["PYTHONUNBUFFERED"], env["PYTHONFAULTHANDLER"]) == ("1", "1")


def test_no_step_can_move_its_results_or_its_mark() -> None:
    """Both would be looked for where they were promised, and not be found."""
    env = of_job({}, env={"ORCH_RESULTS": "/elsewhere", "ORCH_JOB": "another"})

    assert env["ORCH_RESULTS"] == str(Path("/runs/r/steps/s/results.jsonl"))
    assert env["ORCH_JOB"] == "r/0"


def test_a_leased_gpu_is_the_only_one_in_sight_whatever_was_set_before() -> None:
    uuid = "GPU-00000000-1111-2222-3333-444444444444"

    env = of_job({"CUDA_VISIBLE_DEVICES": "0,1,2"}, [{"index": 1, "uuid": uuid}])

    assert env["CUDA_VISIBLE_DEVICES"] == uuid
    assert env["ORCH_GPU_INDICES"] == "1"
    assert "ORCH_GPU_INDICES" not in of_job({})


def test_guards_are_named_only_where_there_are_some() -> None:
    assert of_job({}, guards=["a", "b"])["ORCH_GUARDS"] == "a,b"
    assert "ORCH_GUARDS" not in of_job({})
