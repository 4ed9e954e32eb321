from __future__ import annotations

from pathlib import Path

from orchestrator.spec.expand import KILL_ALLOWANCE_S, Prepared, prepare


def prepared(tmp_path: Path, text: str) -> Prepared:
    path = tmp_path / "exp.yaml"
    path.write_text(text, "utf-8")
    return prepare(path)


def test_steps_follow_what_they_need_and_keep_the_file_order_otherwise(tmp_path: Path) -> None:
    found = prepared(
        tmp_path,
        "experiment: e\ntimeout: 1m\nsteps:\n"
        "  - {id: c, needs: [a], run: 'true'}\n"
        "  - {id: b, run: 'true'}\n"
        "  - {id: a, run: 'true'}\n",
    )

    assert [job.step for job in found.jobs] == ["b", "a", "c"]


def test_rounds_are_interleaved_across_points_and_turn_round(tmp_path: Path) -> None:
    found = prepared(
        tmp_path,
        "experiment: e\ntimeout: 1m\nsteps:\n"
        "  - {id: s, rounds: 2, matrix: {n: [1, 2]}, run: 'true'}\n",
    )

    assert [job.id for job in found.jobs] == ["s[n=1]#1", "s[n=2]#1", "s[n=2]#2", "s[n=1]#2"]


def test_points_are_exported_and_a_step_overrides_the_experiment(tmp_path: Path) -> None:
    found = prepared(
        tmp_path,
        "experiment: e\ntimeout: 1m\nlog_limit: 1MB\nsteps:\n"
        "  - {id: s, timeout: 5s, log_limit: 2MB, matrix: {flag: [true]}, run: 'true'}\n",
    )

    (job,) = found.jobs
    assert job.env == {"ORCH_POINT_FLAG": "true"}
    assert job.timeout_s == 5
    assert job.log_limit_bytes == 2_000_000


def test_the_worst_case_counts_deadlines_graces_and_kills(tmp_path: Path) -> None:
    found = prepared(
        tmp_path,
        "experiment: e\nsteps:\n"
        "  - {id: s, timeout: 60s, stop: {grace: 5s}, matrix: {n: [1, 2]}, run: 'true'}\n",
    )

    assert found.worst_case_s == 2 * (60 + 5 + KILL_ALLOWANCE_S)
