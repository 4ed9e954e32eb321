from __future__ import annotations

from pathlib import Path

import pytest

from preflight.discover import PathMissing
from preflight.gate import check_experiment

BAD = 'import torch\n\ntorch.set_default_device("cuda")\n'
EXPERIMENT = (
    "experiment: exp\nkind: probe\ntimeout: 5m\nsteps:\n  - {id: run, run: python -m app.bench}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.preflight]\n", "utf-8")
    (tmp_path / "exp.yaml").write_text(EXPERIMENT, "utf-8")
    for name in ("app", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "app" / "bench.py").write_text("from app import model\n", "utf-8")
    (tmp_path / "app" / "model.py").write_text("x = 1\n", "utf-8")
    (tmp_path / "other" / "legacy.py").write_text(BAD, "utf-8")
    return tmp_path


def test_errors_elsewhere_in_the_project_do_not_stop_a_run(project: Path) -> None:
    gate = check_experiment(project / "exp.yaml")

    assert (gate.errors, gate.warnings, gate.report.files) == (0, 0, 3)


def test_yaml_nested_too_deep_is_a_finding_of_its_own_file_alone(project: Path) -> None:
    (project / "deep.yaml").write_text(f"experiment: x\nx-d: {'[' * 3000}{']' * 3000}\n", "utf-8")

    assert check_experiment(project / "exp.yaml").errors == 0
    gate = check_experiment(project / "deep.yaml")
    assert gate.errors == 1
    assert "deep.yaml:2:1: error[unparsed-file]" in gate.text
    assert "nested more than 100 levels deep" in gate.text


def test_aliases_that_name_billions_are_a_finding_of_their_own_file_alone(project: Path) -> None:
    lines = [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    step = "steps: [{id: a, run: *a29}]\n"
    text = "\n".join(["experiment: x", "x-0: &a0 [1]", *lines, step])
    (project / "laughs.yaml").write_text(text, "utf-8")
    (project / "hosts.yaml").write_text("\n".join([text, "hosts: {a: {x-gpu: *a29}}"]), "utf-8")

    assert check_experiment(project / "exp.yaml").errors == 0
    gate = check_experiment(project / "laughs.yaml")
    assert gate.errors == 1
    assert "laughs.yaml:8:1: error[unparsed-file]" in gate.text


def test_a_yaml_that_is_not_read_is_a_finding_of_its_own_file_alone(project: Path) -> None:
    (project / "new.yaml").write_text(f"%YAML 1.3\n---\n{EXPERIMENT}", "utf-8")

    assert check_experiment(project / "exp.yaml").errors == 0
    gate = check_experiment(project / "new.yaml")
    assert gate.errors == 1
    assert "new.yaml:1:1: error[unparsed-file]" in gate.text


def test_error_in_imported_code_stops_the_run(project: Path) -> None:
    (project / "app" / "model.py").write_text(BAD, "utf-8")

    gate = check_experiment(project / "exp.yaml")

    assert gate.errors == 1
    assert "app/model.py:3:1: error[default-device-set]" in gate.text


def test_error_in_the_experiment_itself_stops_the_run(project: Path) -> None:
    (project / "exp.yaml").write_text(EXPERIMENT.replace("timeout: 5m\n", ""), "utf-8")

    assert check_experiment(project / "exp.yaml").errors == 1


def test_suppressions_are_counted_for_the_record(project: Path) -> None:
    line = "  # preflight: ignore[default-device-set] -- owns its process\n"
    (project / "app" / "model.py").write_text(BAD.rstrip() + line, "utf-8")

    gate = check_experiment(project / "exp.yaml")

    assert (gate.errors, gate.suppressed) == (0, 1)


def test_missing_experiment_is_an_error(project: Path) -> None:
    with pytest.raises(PathMissing):
        check_experiment(project / "absent.yaml")
