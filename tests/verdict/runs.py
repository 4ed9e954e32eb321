"""Runs and ledgers in a few words."""

from __future__ import annotations

from typing import Any

from orchestrator.spec.ledger import Entry, Ledger
from orchestrator.store.history import History, JobView
from orchestrator.store.record import RunRecord, Tree
from orchestrator.store.results import Result
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.item import Item
from orchestrator.verdict.reconcile import reconcile


def job(name: str, state: str = "passed", *, id_: str = "", **more: Any) -> JobView:
    """`job("step[n=3]", ...)`: the id of a job with its step and its point; or another `id_`."""
    step, _, axes = name.partition("[")
    pairs = (pair.split("=") for pair in axes.rstrip("]").split(",") if pair)
    point = {axis: int(value) if value.isdigit() else value for axis, value in pairs}
    return JobView(id=id_ or name, step=step, point=point, state=state, **more)


def history(*jobs: JobView) -> History:
    return History({one.id: one for one in jobs})


def result(where: str, metric: str, value: Any, unit: str = "us", **more: Any) -> Result:
    """A result of the job that `where` names."""
    view = job(where)
    facts: dict[str, Any] = {"round": 0, "point": view.point, **more}
    return Result(metric=metric, value=value, unit=unit, step=view.step, job=view.id, **facts)


def entry(expect: dict[str, Any], **more: Any) -> Entry:
    """An entry about the metric `time`, or what is given."""
    facts = {
        "id": "e1",
        "unit": "us",
        "because": "it was so the last time",
        "source": "guess",
        **({} if "compute" in more else {"metric": "time"}),
        **more,
    }
    return Entry.model_validate({**facts, "expect": expect})


def ledger(*entries: Entry) -> Ledger:
    return Ledger(ledger="exp", entries=entries)


def judged(
    one: Entry,
    *results: Result,
    others: tuple[Entry, ...] = (),
    jobs: History | None = None,
    conditions: Conditions | None = None,
) -> Item:
    """The item of an entry."""
    items = reconcile(
        ledger(one, *others), results, jobs or history(job("run")), conditions or Conditions()
    )
    return next(item for item in items if item.id == one.id)


def measured(value: Any, unit: str = "us") -> Result:
    return result("run", "time", value, unit)


def record(run_id: str, **more: Any) -> RunRecord:
    """A run that is home."""
    facts: dict[str, Any] = {"tree": Tree(local="a" * 40), **more}
    return RunRecord(
        run_id=run_id,
        experiment=facts.pop("experiment", "exp"),
        experiment_file="exp.yaml",
        host=facts.pop("host", "here"),
        carrier="local",
        created_at=run_id,
        orch_version="0",
        state="home",
        **facts,
    )
