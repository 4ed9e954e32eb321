"""Whole runs, bundles, directories and revisions side by side, made by `orch run` itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from orchestrator.diff import comparison, junit
from orchestrator.diff.comparison import Comparison
from orchestrator.errors import EvidenceError, InputError
from orchestrator.store.rundir import RunDir
from tests.conftest import ROOT, Project

EXPERIMENT = """
experiment: pair
timeout: 60s
steps:
  - id: few
    run: python3 measure.py few
    rounds: 2
    collect: ["out/**"]
  - id: steady
    run: python3 measure.py steady
    rounds: 6
compare:
  - path: "**/out/facts.json"
    rel: 5%
  - path: "**/out/noise.bin"
    ignore: true
"""
MEASURE = """
import json, os, pathlib, struct, sys
from orch_results import record
shift, step, turn = {shift}, sys.argv[1], int(os.environ["ORCH_ROUND"])
record("time", (10.0 + shift) * (1 + 0.001 * (turn % 3)), "us")
if step == "few":
    record("rows", 64 + shift, "1")
    if shift:
        record("only_now", 1, "1")
    out = pathlib.Path("out")
    out.mkdir(exist_ok=True)
    (out / "facts.json").write_text(json.dumps({{"tflops": 100 + 2 * shift}}))
    (out / "noise.bin").write_bytes(os.urandom(16))
    (out / ("new.txt" if shift else "old.txt")).write_text("x")
    values = [1.0, 2.0, 3.0 + shift]
    head = json.dumps({{"x": {{"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}}}).encode()
    (out / "x.safetensors").write_bytes(
        struct.pack("<Q", len(head)) + head + struct.pack("<3f", *values))
print("shift", shift)
"""
KEPT = ("run.json", "bundle.zip", "experiment.yaml", "plan.json")


@dataclass(frozen=True)
class Runs:
    project: Project
    a: RunDir
    b: RunDir

    def orch(self, *arguments: str) -> Any:
        return self.project.orch("diff", *arguments)


def _run(project: Project, shift: int) -> RunDir:
    project.write("measure.py", MEASURE.format(shift=shift))
    known = project.runs
    done = project.orch("run", "pair.yaml", "--plain", "--no-preflight")
    assert done.code in (0, 3), done.text
    (made,) = (run for run in project.runs if run not in known)
    return RunDir(made)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two runs of one experiment whose program changed in between. Read only."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "work").mkdir()
    (folder / ".gitconfig").write_text("[user]\n name = A Tester\n email = tester@example.com\n")
    env = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "GIT_CONFIG_NOSYSTEM": "1"}
    project = Project(folder / "work", folder, env)
    project.git("init", "-q")
    project.experiment(EXPERIMENT, "pair.yaml")
    return Runs(project, _run(project, 0), _run(project, 1))


@pytest.fixture(scope="module")
def found(runs: Runs) -> Iterator[Comparison]:
    """B against A, compared where the project is."""
    before = Path.cwd()
    os.chdir(runs.project.path)
    try:
        yield comparison.compare(runs.a.run_id, runs.b.run_id, runs.a.path.parent)
    finally:
        os.chdir(before)


def of_artifacts(found: Comparison) -> dict[str, str]:
    return {record.path.rsplit("/", 1)[-1]: record.status for record in found.artifacts}


def of_metrics(found: Comparison) -> dict[str, str]:
    return {f"{metric.step}.{metric.metric}": metric.outcome for metric in found.metrics}


def edited(run: RunDir, folder: Path, change: Any) -> RunDir:
    """A copy of a run whose host says something else of itself."""
    copy = RunDir(folder / run.run_id)
    shutil.copytree(run.path, copy.path)
    for name in ("environment.before.json", "environment.after.json"):
        path = copy.evidence / name
        document = json.loads(path.read_text("utf-8"))
        change(document["fields"])
        path.write_text(json.dumps(document), "utf-8")
    return copy


def another_kernel(fields: dict[str, Any]) -> None:
    name = next(n for n, f in fields.items() if f["severity"] == "identity")
    fields[name] |= {"state": "value", "value": "something else"}


def test_two_runs_differ_where_they_were_changed(found: Comparison) -> None:
    assert of_artifacts(found) == {
        "facts.json": "within",
        "log": "different",
        "new.txt": "only_b",
        "old.txt": "only_a",
        "x.safetensors": "different",
    }
    assert found.ignored > 0, "the noise is named by a rule"
    assert found.code is not None
    assert [(f.path, f.added, f.removed) for f in found.code.files] == [("measure.py", 1, 1)]
    assert found.exit_code == 1


def test_metrics_are_told_by_the_class_of_their_point(found: Comparison) -> None:
    assert of_metrics(found) == {
        "few.rows": "different",
        "few.only_now": "only_b",
        "few.time": "too_few",
        "steady.time": "measured",
    }
    steady = next(m.contrast for m in found.metrics if m.step == "steady")
    assert steady.ratio == pytest.approx(1.1)
    assert (steady.a.point_class, steady.a.count, steady.a.centre_kind) == ("stable", 6, "median")
    few = next(m.contrast for m in found.metrics if (m.step, m.metric) == ("few", "time"))
    assert few.ratio == pytest.approx(1.1)
    assert few.a.centre is None
    assert "2 and 2 blocks" in few.reason


def test_of_unlike_hosts_no_metric_is_comparable(runs: Runs, tmp_path: Path) -> None:
    other = edited(runs.b, tmp_path, another_kernel)

    found = comparison.compare(str(runs.a.path), str(other.path), runs.a.path.parent)

    assert found.conditions is not None
    assert len(found.conditions.identity) == 1
    outcomes = of_metrics(found)
    assert {name for name, outcome in outcomes.items() if outcome == "not_comparable"} == {
        "few.rows",
        "few.time",
        "steady.time",
    }
    steady = next(m.contrast for m in found.metrics if m.step == "steady")
    assert "differs" in steady.reason
    assert steady.ratio == pytest.approx(1.1), "shown, and not judged"


def test_without_a_snapshot_nothing_is_comparable(runs: Runs, tmp_path: Path) -> None:
    pair = []
    for side, run in (("a", runs.a), ("b", runs.b)):
        copy = edited(run, tmp_path / side, lambda fields: None)
        for path in copy.evidence.glob("environment.*.json"):
            path.unlink()
        pair.append(str(copy.path))

    found = comparison.compare(*pair, tmp_path)

    assert found.conditions is not None
    assert found.conditions.missing
    assert of_metrics(found)["steady.time"] == "not_comparable"


def test_what_differs_in_the_conditions_is_told_first(runs: Runs, tmp_path: Path) -> None:
    other = edited(runs.b, tmp_path, another_kernel)

    told = runs.orch(str(runs.a.path), str(other.path))

    lines = told.out.splitlines()
    starts = ["conditions: 1 fact of identity differ", "code: ", "metrics: ", "artifacts: "]
    places = [next(i for i, line in enumerate(lines) if line.startswith(s)) for s in starts]
    assert places == sorted(places)
    assert "something else" in lines[places[0] + 1]


def test_a_bundle_is_the_run_it_came_from(runs: Runs) -> None:
    found = comparison.compare(str(runs.a.bundle), runs.a.run_id, runs.a.path.parent)

    assert (found.a.kind, found.b.kind) == ("bundle", "run")
    assert set(of_artifacts(found).values()) == {"equal"}
    assert set(of_metrics(found).values()) <= {"equal", "measured", "too_few"}
    assert found.code is not None
    assert found.code.same
    assert found.exit_code == 0


def test_a_bundle_against_the_other_run_differs_as_the_runs_do(runs: Runs) -> None:
    found = comparison.compare(str(runs.a.bundle), runs.b.run_id, runs.a.path.parent)

    assert of_artifacts(found)["x.safetensors"] == "different"
    assert of_artifacts(found)["facts.json"] == "within"


def test_a_revision_is_compared_with_what_lies_here(runs: Runs, tmp_path: Path) -> None:
    project = Project(tmp_path / "repository", runs.project.home, runs.project.env)
    shutil.copytree(runs.project.path / "artifacts", project.path / "artifacts")
    project.git("init", "-q")
    project.git("add", "-A", "-f")
    project.git("commit", "-q", "-m", "runs")
    name = f"artifacts/{runs.a.run_id}"

    same = project.orch("diff", f"{name}@HEAD", name, "--exit-code", "--json")
    unlike = project.orch("diff", f"{name}@HEAD", f"artifacts/{runs.b.run_id}", "--exit-code")
    gone = project.orch("diff", f"{name}@nowhere", name)

    told = json.loads(same.out)
    assert told["a"]["kind"] == "revision"
    assert told["artifact_counts"].keys() == {"equal"}
    assert same.code == 0
    assert unlike.code == 1
    assert gone.code == 2
    assert "nowhere" in gone.err


def test_a_revision_of_which_only_the_bundle_was_kept_is_a_run(runs: Runs, tmp_path: Path) -> None:
    project = Project(tmp_path / "repository", runs.project.home, runs.project.env)
    name = f"artifacts/{runs.a.run_id}"
    shutil.copytree(runs.a.path, project.path / name)
    project.git("init", "-q")
    project.write(".gitignore", "evidence/\n")
    project.git("add", "-A", "-f", ".gitignore", *(f"{name}/{n}" for n in KEPT))
    project.git("commit", "-q", "-m", "the records and the bundle")

    same = project.orch("diff", f"{name}@HEAD", name, "--exit-code", "--json")
    shutil.rmtree(project.path / name / "evidence")
    unpacked = project.orch("diff", f"{name}@HEAD", name, "--exit-code", "--json")

    for done in (same, unpacked):
        assert done.code == 0, done.text
        told = json.loads(done.out)
        assert told["a"]["run_id"] == runs.a.run_id
        assert told["artifact_counts"].keys() == {"equal"}
        assert told["ignored"] == 2, "the rules of its experiment hold"
        assert {m["outcome"] for m in told["metrics"]} == {"equal", "measured", "too_few"}


def test_a_job_that_ended_otherwise_is_named(runs: Runs, tmp_path: Path) -> None:
    copy = edited(runs.b, tmp_path, lambda fields: None)
    journal = copy.evidence / "journal.jsonl"
    lines = journal.read_text("utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if '"step_ended"' in line)
    event = json.loads(lines[at]) | {"state": "failed", "exit_code": 1}
    journal.write_text("\n".join([*lines[:at], json.dumps(event), *lines[at + 1 :]]) + "\n")

    found = comparison.compare(str(runs.a.path), str(copy.path), tmp_path)

    assert [(e.kind, e.id, e.a, e.b) for e in found.ended] == [
        ("job", event["id"], "passed", "failed")
    ]
    assert found.exit_code == 1
    (suite, *_) = ElementTree.fromstring(junit.render(found))
    assert (suite.get("name"), suite.get("failures")) == ("ended", "1")


def test_between_runs_finds_what_their_names_find(runs: Runs, found: Comparison) -> None:
    again = comparison.between_runs(runs.a, runs.b)

    assert again.artifacts == found.artifacts
    assert again.metrics == found.metrics
    assert again.ended == found.ended


@pytest.mark.parametrize(
    ("name", "named"),
    [("nothing", "nothing"), ("no/such/place", "no/such/place"), ("x@nowhere", "nowhere")],
)
def test_a_name_that_nothing_answers_to_is_the_users_mistake(
    name: str, named: str, runs: Runs
) -> None:
    told = runs.orch(name, "latest", "--exit-code")

    assert told.code == 2
    assert f"`{named}`" in told.err


def test_a_damaged_bundle_is_told_so(runs: Runs, tmp_path: Path) -> None:
    cut = tmp_path / "cut.zip"
    cut.write_bytes(runs.a.bundle.read_bytes()[:-200])

    told = runs.orch(str(cut), "latest", "--exit-code")

    assert told.code == 3
    assert "is no whole zip" in told.err


def test_a_file_has_no_pair_in_a_run(runs: Runs) -> None:
    told = runs.orch("pair.yaml", "latest")

    assert told.code == 2
    assert "no pair" in told.err


def test_a_journal_of_another_shape_is_damaged_evidence(runs: Runs, tmp_path: Path) -> None:
    copy = edited(runs.a, tmp_path, lambda fields: None)
    (copy.evidence / "journal.jsonl").write_text("[1, 2]\n")

    with pytest.raises(EvidenceError, match="cannot be read as a run"):
        comparison.compare(str(copy.path), str(runs.b.path), tmp_path)


def test_a_glob_that_fits_nothing_is_the_users_mistake(runs: Runs) -> None:
    with pytest.raises(InputError, match="fits"):
        comparison.compare(runs.a.run_id, runs.b.run_id, runs.a.path.parent, only="*.parquet")


def test_rules_of_the_newer_run_hold_and_the_change_is_told(runs: Runs, tmp_path: Path) -> None:
    copy = edited(runs.b, tmp_path, lambda fields: None)
    copy.experiment.write_text(copy.experiment.read_text("utf-8").replace("5%", "0.1%"), "utf-8")

    found = comparison.compare(str(runs.a.path), str(copy.path), tmp_path)

    assert of_artifacts(found)["facts.json"] == "different"
    assert any("those of B hold" in problem for problem in found.problems)


# ---- the command


def test_exit_codes_are_asked_for(runs: Runs) -> None:
    a, b = runs.a.run_id, runs.b.run_id

    assert runs.orch(a, b).code == 0
    assert runs.orch(a, b, "--exit-code").code == 1
    assert runs.orch(a, a, "--exit-code").code == 0
    assert runs.orch(a, "last", "--exit-code", "--stat").code == 1
    assert runs.orch(a).code == 2


def test_one_artifact_can_be_asked_for(runs: Runs) -> None:
    told = runs.orch(runs.a.run_id, runs.b.run_id, "--only", "*.safetensors", "--plain")

    assert "[2]  3.0 -> 4.0" in told.out
    assert "old.txt" not in told.out


def test_json_is_one_document_with_everything(runs: Runs) -> None:
    told = json.loads(runs.orch(runs.a.run_id, runs.b.run_id, "--json").out)

    assert told["exit_code"] == 1
    assert told["artifact_counts"]["within"] == 2
    tensor = next(r for r in told["artifacts"] if r["type"] == "safetensors")
    assert tensor["metrics"]["max_abs"] == 1.0
    assert tensor["children"][0]["locations"] == [
        {"where": "[2]", "a": "3.0", "b": "4.0", "size": 1.0}
    ]


def test_junit_has_a_case_for_each_metric_and_artifact(runs: Runs, tmp_path: Path) -> None:
    report = tmp_path / "diff.xml"

    told = runs.orch(runs.a.run_id, runs.b.run_id, "--junit", str(report), "--exit-code")

    suites = {s.get("name"): s for s in ElementTree.parse(report).getroot()}
    assert told.code == 1
    assert suites["metrics"].get("failures") == "2"
    assert suites["metrics"].get("skipped") == "1", "too few blocks"
    artifacts = {c.get("name", "").rsplit("/", 1)[-1]: c for c in suites["artifacts"]}
    assert artifacts["x.safetensors"].find("failure") is not None
    assert artifacts["facts.json"].find("failure") is None
