from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from kernels.backend import Backend
from kernels.timing import record as record_module
from kernels.timing.record import record, record_time


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out)


def test_alone_it_prints_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    record("e2e", 12.5, "us", samples=[12.0, 13.0], point={"tokens": 8})

    assert printed(capsys) == {
        "metric": "e2e", "value": 12.5, "unit": "us",
        "samples": [12.0, 13.0], "point": {"tokens": 8}, "status": "ok",
    }  # fmt: skip


def test_a_time_of_a_compiled_kernel_is_recorded_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record_module, "BACKEND", Backend.GPU)

    record_time("e2e", 12.5, samples=[12.5], timing={"mode": "graph"})

    line = printed(capsys)
    assert (line["value"], line["unit"], line["status"]) == (12.5, "us", "ok")
    assert (line["samples"], line["timing"]) == ([12.5], {"mode": "graph"})


def test_a_time_of_the_interpreter_is_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record_module, "BACKEND", Backend.INTERPRETER)

    record_time("e2e", 12.5, samples=[12.5], check={"rel_l2": 0.0})

    line = printed(capsys)
    assert (line["value"], line["status"]) == (None, "not_applicable")
    assert line["note"] == "12.5 us in the interpreter, on a CPU: no kernel was timed"
    assert "samples" not in line
    assert line["check"] == {"rel_l2": 0.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_becomes_an_error(
    value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    record("rel_l2", value)

    line = printed(capsys)
    assert line["value"] is None
    assert line["status"] == "error"
    assert line["note"] == f"measured {value}"


def test_inside_a_run_the_agent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    agent = ModuleType("orch_results")
    agent.record = lambda *names, **rest: told.append((names, rest))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "orch_results", agent)

    record("gelu.rel_l2", 1e-3, note="seed 0")

    ((names, rest),) = told
    assert names == ("gelu.rel_l2", 1e-3, "")
    assert rest["status"] == "ok"
    assert rest["note"] == "seed 0"


@pytest.mark.parametrize(("value", "status"), [(1.0, "error"), (0, "skipped"), (None, "ok")])
def test_a_value_goes_with_ok_and_none_with_another(value: float | None, status: str) -> None:
    with pytest.raises(ValueError, match="a value goes with status `ok`"):
        record("e2e", value, status=status)


@pytest.mark.parametrize("name", ["E2E", "a b", "1st", "a..b", ""])
def test_a_metric_name_outside_the_grammar_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        record(name, 1)
