"""results.jsonl read back: good lines bound to their job, bad ones named, none guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import results
from orchestrator.store.history import History, JobView
from orchestrator.store.results import Result, Results

JOB = JobView("step[n=3]", "step", 2, "step-n3", {"n": 3}, "passed")


def line(**changes: Any) -> str:
    return json.dumps({"metric": "time", "value": 1.5, "unit": "us", "status": "ok", **changes})


def read(tmp_path: Path, *lines: str | bytes) -> Results:
    folder = tmp_path / "steps" / JOB.folder
    folder.mkdir(parents=True)
    raw = [one if isinstance(one, bytes) else one.encode("utf-8") for one in lines]
    (folder / "results.jsonl").write_bytes(b"".join(one + b"\n" for one in raw))
    return results.read(tmp_path, History({JOB.id: JOB}))


class TestGoodLines:
    def test_take_step_point_and_round_from_their_job(self, tmp_path: Path) -> None:
        found = read(tmp_path, line(samples=[1, 2.0], note="warm", check={"rel_l2": 1e-7}))

        assert found == Results(
            (
                Result(
                    metric="time",
                    value=1.5,
                    unit="us",
                    step="step",
                    point={"n": 3},
                    round=2,
                    job="step[n=3]",
                    samples=(1, 2.0),
                    note="warm",
                    check={"rel_l2": 1e-7},
                ),
            )
        )

    def test_add_the_axes_the_process_looped_over(self, tmp_path: Path) -> None:
        found = read(tmp_path, line(point={"k": "x"}), line(point={"n": 3, "k": "y"}))

        assert [r.point for r in found.found] == [{"n": 3, "k": "x"}, {"n": 3, "k": "y"}]

    @pytest.mark.parametrize("value", [0, -1, 2**62, 0.0, True, False, "", "text", "ü"])
    def test_values_keep_their_type(self, tmp_path: Path, value: object) -> None:
        found = read(tmp_path, line(value=value))

        assert found.found[0].value == value
        assert type(found.found[0].value) is type(value)

    @pytest.mark.parametrize("status", ["skipped", "not_applicable", "unknown", "error"])
    def test_no_value_goes_with_a_reason(self, tmp_path: Path, status: str) -> None:
        found = read(tmp_path, line(value=None, status=status, note="why"))

        assert (found.found[0].value, found.found[0].status) == (None, status)

    def test_blank_lines_are_nothing(self, tmp_path: Path) -> None:
        assert read(tmp_path, "", line(), "  ").problems == ()

    def test_only_a_line_feed_ends_a_line(self, tmp_path: Path) -> None:
        """As on the host, whose count is compared with what came home."""
        found = read(tmp_path, line().replace(", ", ",\r") + "\r", "\r", line())

        assert [r.value for r in found.found] == [1.5, 1.5]
        assert found.problems == ()

    def test_a_line_is_counted_once(self, tmp_path: Path) -> None:
        folder = tmp_path / "steps" / JOB.folder
        folder.mkdir(parents=True)
        (folder / "results.jsonl").write_bytes(line().replace(", ", ",\r").encode() + b"\n")

        found = results.read(tmp_path, History({JOB.id: replace(JOB, results=2)}))

        assert found.problems == ("step[n=3]: 2 results were recorded, 1 came home",)

    def test_a_line_of_another_program_needs_no_more_than_metric_and_value(
        self, tmp_path: Path
    ) -> None:
        (found,) = read(tmp_path, '{"metric": "time", "value": 2}').found

        assert (found.metric, found.value, found.unit, found.status) == ("time", 2, "", "ok")
        assert found.point == {"n": 3}


class TestBadLines:
    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            ("not json", "Expecting value"),
            (line()[:-5], "Expecting|Unterminated|delimiter"),
            ("5", "not a result"),
            ("[]", "not a result"),
            ("null", "not a result"),
            ("{}", "the key `metric` is missing"),
            ('{"metric": "time"}', "the key `value` is missing"),
            ('{"metric": "time", "value": null}', "value None and the status 'ok'"),
            (line(value=None), "value None and the status"),
            (line(status="error"), "the status 'error'"),
            (line(status="fine"), "the status 'fine'"),
            (line(status=["ok"]), "the status"),
            (line(value=float("nan")), "`time` is nan"),
            (line(value=float("inf")), "`time` is inf"),
            (line(value=[1, 2]), "is a list"),
            (line(value={"x": 1}), "is a dict"),
            (line(value=10**400), "`time` is 1000"),
            (line(samples=[1, float("nan")]), "a sample"),
            (line(samples=[1, "2"]), "a sample"),
            (line(samples=[True]), "a sample"),
            (line(samples=5), "samples"),
            (line(point={"n": 4}), "the job ran at n=3"),
            (line(point={"k": [1]}), "the axis `k`"),
            (line(point={"k": None}), "the axis `k`"),
            (line(point=5), "point"),
            ("[" * 100_000, "nested too deeply"),
            (line(metric="\ud800"), "half of a character"),
            (line(value="\udfff x"), "half of a character"),
            (line(unit="\udfff"), "half of a character"),
            (line(point={"k": "\ud800"}), "half of a character"),
            (line(unit={"a": 1}), "its unit is a dict, not a str"),
            (line(note=5), "its note is a int, not a str"),
            (line(timing=[1]), "its timing is a list, not a dict"),
            (line(check="x"), "its check is a str, not a dict"),
            (line(point={"k": float("nan")}), "the axis `k` is nan"),
            (line(point={"k": float("-inf")}), "the axis `k` is -inf"),
            (line(metric=None), "its metric is None, not a name in quotes"),
            (line(metric=["m"]), "its metric is ['m'], not a name in quotes"),
            (line(metric=5), "its metric is 5, not a name in quotes"),
        ],
        ids=range(39),
    )
    def test_are_named_with_their_line_and_the_others_count(
        self, tmp_path: Path, bad: str, why: str
    ) -> None:
        found = read(tmp_path, line(metric="before"), bad, line(metric="after"))

        assert [r.metric for r in found.found] == ["before", "after"]
        (problem,) = found.problems
        assert problem.startswith("step[n=3]: results.jsonl:2: ")
        assert any(part in problem for part in why.split("|")), problem

    def test_the_point_of_a_job_at_one_is_not_true(self, tmp_path: Path) -> None:
        folder = tmp_path / "steps" / JOB.folder
        folder.mkdir(parents=True)
        (folder / "results.jsonl").write_text(line(point={"n": True}) + "\n", "utf-8")

        found = results.read(tmp_path, History({JOB.id: replace(JOB, point={"n": 1})}))

        (problem,) = found.problems
        assert problem.endswith("it says n=True, the job ran at n=1")

    def test_many_are_counted(self, tmp_path: Path) -> None:
        found = read(tmp_path, *["{}"] * 5000, line())

        assert len(found.found) == 1
        assert len(found.problems) == results.MAX_PROBLEMS + 1
        assert found.problems[-1] == "step[n=3]: results.jsonl: and 4980 more lines"

    @pytest.mark.parametrize("byte", [b"\xfe", b"\xff", b"\xed\xa0\x80"])
    def test_bytes_that_are_not_utf_8(self, tmp_path: Path, byte: bytes) -> None:
        """Read as another character, rounds that differ would agree."""
        found = read(tmp_path, b'{"metric": "m", "value": "' + byte + b'"}', line())

        assert [r.metric for r in found.found] == ["time"]
        assert found.problems == (
            f"step[n=3]: results.jsonl:1: its byte 0x{byte[:1].hex()} at 26 is not UTF-8",
        )

    def test_one_too_long_is_passed_over_without_being_held(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(results, "MAX_LINE", 200)

        found = read(tmp_path, line(note="x" * 2000), line(note="y" * 50))

        assert [r.note[:1] for r in found.found] == ["y"]
        (problem,) = found.problems
        assert problem == "step[n=3]: results.jsonl:1: a line of more than 200 bytes"

    def test_both_halves_of_a_character_are_one(self, tmp_path: Path) -> None:
        assert read(tmp_path, line(note="\U0001f600")).found[0].note == "\U0001f600"


@pytest.mark.parametrize("lines", [0, 1])
def test_results_that_did_not_come_home_are_told(tmp_path: Path, lines: int) -> None:
    """The journal tells how many a job recorded; a full disk may have kept the file there."""
    job = replace(JOB, results=2)
    if lines:
        (tmp_path / "steps" / JOB.folder).mkdir(parents=True)
        (tmp_path / "steps" / JOB.folder / "results.jsonl").write_text(line() + "\n", "utf-8")

    found = results.read(tmp_path, History({job.id: job}))

    assert found.problems == (f"step[n=3]: 2 results were recorded, {lines} came home",)


def test_results_that_the_host_could_not_read_are_told(tmp_path: Path) -> None:
    job = replace(JOB, results=None)

    found = results.read(tmp_path, History({job.id: job}))

    assert found.problems == ("step[n=3]: the host could not read all that it recorded",)


def test_jobs_without_results_are_passed_over(tmp_path: Path) -> None:
    jobs = {"a": JobView("a", "a", folder="a"), "b": JobView("b", "b")}
    (tmp_path / "steps" / "a").mkdir(parents=True)

    assert results.read(tmp_path, History(jobs)) == Results(())
