"""A plan carried out by a real supervisor: order, needs, environment, files, secrets, notes."""

from __future__ import annotations

import json
import os
import signal
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import caches
from orchestrator.agent.plan import Activation, Stop
from tests.agent.controller import (
    ROOT,
    RUN_ID,
    Controller,
    Heard,
    job,
    plan,
    run,
    supervisor_pid,
    wait_until,
)

FILES = {"data.txt": b"some data\n", "sub/in.txt": b"in a folder\n"}


def member(heard: Heard, name: str) -> bytes:
    with zipfile.ZipFile(BytesIO(heard.bundle)) as archive:
        return archive.read(name)


def members(heard: Heard) -> set[str]:
    with zipfile.ZipFile(BytesIO(heard.bundle)) as archive:
        return set(archive.namelist())


def log(heard: Heard, folder: str) -> str:
    return member(heard, f"steps/{folder}/log").decode("utf-8", "replace")


class TestOrder:
    def test_jobs_run_one_after_the_other_whatever_becomes_of_them(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job("one", "cat data.txt"),
            job("two", "exit 5"),
            job("three", "kill -SEGV $$"),
            job("four", "sleep 60", timeout_s=0.3),
            job("five", ["no-such-program"]),
            job("six", "echo last"),
        )

        states = {e["id"]: e["state"] for e in heard.events if e["event"] == "step_ended"}
        assert states == {
            "one": "passed",
            "two": "failed",
            "three": "failed",
            "four": "timed_out",
            "five": "failed",
            "six": "passed",
        }
        assert log(heard, "one") == "some data\n"
        assert heard.ended("two")["exit_code"] == 5
        assert heard.ended("three")["signal"] == "SEGV"
        last = heard.events[-1]
        assert last["event"] == "run_ended"
        assert last["counts"] == {"passed": 2, "failed": 3, "timed_out": 1}
        assert [e["n"] for e in heard.events] == list(range(len(heard.events)))

    def test_a_step_whose_need_did_not_pass_everywhere_is_skipped(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job("good", "true"),
            job("mixed[n=1]", "true", folder="mixed-1"),
            job("mixed[n=2]", "false", folder="mixed-2"),
            job("fine", "true"),
            job("blocked", "true"),
            job("behind", "true"),
            job("lost", "true"),
            needs={"fine": ["good"], "blocked": ["mixed"], "behind": ["blocked"], "lost": ["none"]},
        )

        assert heard.ended("fine")["state"] == "passed"
        assert heard.ended("blocked")["reason"] == "needs `mixed`, which failed"
        assert heard.ended("behind")["reason"] == "needs `blocked`, which was skipped"
        assert heard.ended("lost")["reason"] == "needs `none`, which did not run"
        assert not any(e["event"] == "step_started" and e["id"] == "blocked" for e in heard.events)

    def test_a_plan_without_jobs_ends(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES)

        assert heard.events[-1]["counts"] == {}


class TestEnvironment:
    def test_a_step_finds_what_it_was_promised(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job(
                "show[n=1]",
                "env | sort; pwd",
                folder="show-1",
                round=3,
                workdir="sub",
                env={"MINE": "1", "SHARED": "job"},
                guards=["a", "b"],
            ),
            env={"SHARED": "run", "RUN": "2"},
            activation=Activation(env={"HOSTS": "3"}),
        )

        found = dict(
            line.split("=", 1) for line in log(heard, "show-1").splitlines() if "=" in line
        )
        folder = tmp_path / "root" / "runs" / RUN_ID
        assert found["ORCH_STEP"] == "show"
        assert found["ORCH_POINT"] == "show[n=1]"
        assert found["ORCH_ROUND"] == "3"
        assert found["ORCH_RUN_ID"] == RUN_ID
        assert found["ORCH_GUARDS"] == "a,b"
        assert found["ORCH_OUT"] == str(folder / "steps/show-1/out")
        assert found["ORCH_RESULTS"] == str(folder / "steps/show-1/results.jsonl")
        assert (found["MINE"], found["SHARED"], found["RUN"], found["HOSTS"]) == (
            "1",
            "job",
            "2",
            "3",
        )
        assert found["PYTHONUNBUFFERED"] == "1"
        assert {found[name] for name in caches.VARIABLES} == {
            str(folder / "caches" / sub) for sub in caches.VARIABLES.values()
        }
        assert log(heard, "show-1").endswith(f"{folder}/tree/sub\n")

    def test_results_are_counted_and_come_home(self, tmp_path: Path) -> None:
        program = "from orch_results import record; record('a', 1); record('b', 2.5, 'us')"

        heard = run(tmp_path / "root", FILES, job("one", [sys.executable, "-c", program]))

        assert heard.ended("one")["results"] == 2
        lines = member(heard, "steps/one/results.jsonl").splitlines()
        assert [json.loads(line)["metric"] for line in lines] == ["a", "b"]

    @pytest.mark.parametrize("what", ["mkfifo", "mkdir"])
    def test_a_step_that_spoils_its_results_file_holds_nobody_up(
        self, tmp_path: Path, what: str
    ) -> None:
        heard = run(
            tmp_path / "root", FILES, job("one", f'{what} "$ORCH_RESULTS"'), job("two", "true")
        )

        assert heard.ended("one")["results"] is None
        assert heard.notes("error") == [
            "what the step recorded cannot be read: it is not a plain file"
        ]
        assert heard.ended("two")["state"] == "passed"

    def test_the_declared_environment_is_entered_once_and_kept(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job("one", "echo $FROM_SETUP"),
            job("two", "echo $FROM_SETUP"),
            activation=Activation(setup=f"echo x >> {tmp_path}/count; export FROM_SETUP=yes"),
        )

        assert log(heard, "one") == log(heard, "two") == "yes\n"
        assert (tmp_path / "count").read_text("ascii") == "x\n"

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"activation": Activation(setup="exit 3")}, "`setup:` ended with exit code 3"),
            ({"activation": Activation(setup="exit 0")}, "`setup:` ended the shell"),
            ({"activation": Activation(venv="/nowhere")}, "has no bin/python"),
        ],
    )
    def test_what_cannot_be_entered_starts_no_job(
        self, tmp_path: Path, more: dict[str, Any], why: str
    ) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "true"), **more)

        assert any(why in note for note in heard.notes("error"))
        assert heard.ended("one")["state"] == "not_started"
        assert heard.events[-1]["counts"] == {"not_started": 1}

    def test_caches_that_the_experiment_moves_are_told(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root", FILES, job("one", "true", env={"TRITON_CACHE_DIR": "/shared"})
        )

        (told,) = [e for e in heard.events if e["event"] == "caches"]
        assert (told["state"], told["overridden"]) == ("unknown", ["TRITON_CACHE_DIR"])


class TestFiles:
    def test_what_a_step_wrote_comes_home_and_nothing_older(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job(
                "one", "mkdir -p out; echo 1 > out/a.json; echo o > $ORCH_OUT/o", collect=["out/*"]
            ),
            job("two", "echo 2 > out/b.json", collect=["out/**/*.json", "*.txt"]),
            job("three", "true", collect=["nowhere/**"]),
        )

        files = {name for name in members(heard) if "/files/" in name or "/out/" in name}
        assert files == {
            "steps/one/files/out/a.json",
            "steps/one/out/o",
            "steps/two/files/out/b.json",
        }
        assert heard.ended("one")["files"] == 1
        assert heard.notes("warning") == [
            "`collect: *.txt` matches only 1 older file",
            "`collect: nowhere/**` matches no file",
        ]
        assert heard.ended("three")["state"] == "passed"

    def test_snapshots_of_the_host_are_taken_before_and_after(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "true"))

        for phase in ("before", "after"):
            found = json.loads(member(heard, f"environment.{phase}.json"))
            assert found["fields"]["cpu.model"]["state"] in ("value", "unknown")
        phases = [e["phase"] for e in heard.events if e["event"] == "environment"]
        assert phases == ["before", "after"]


class TestTrees:
    def test_what_a_step_leaves_is_gone_before_the_next_one_begins(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path / "root",
            FILES,
            job("one", f"setsid sleep 50.25 & echo $! > {tmp_path}/pid"),
            job("two", f"kill -0 $(cat {tmp_path}/pid) 2>&1 || echo it is gone"),
        )

        assert len(heard.ended("one")["leftover"]) == 1
        assert log(heard, "two").endswith("it is gone\n")

    def test_a_hung_probe_is_nobodys_leftover(self, tmp_path: Path) -> None:
        """A tool that cannot be killed is a child of the supervisor for as long as it hangs."""
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir()
        heard = run(
            tmp_path / "root",
            FILES,
            job("one", "true"),
            job("two", "sleep 0.2"),
            activation=Activation(setup=f"setsid sleep 40.5 & echo $! > {tmp_path}/pid"),
        )

        assert heard.ended("one")["leftover"] == []
        assert heard.ended("two")["leftover"] == []
        os.kill(int((tmp_path / "pid").read_text("ascii")), signal.SIGKILL)


SECRET = "hunter2-secret-value"


class TestSecrets:
    def test_values_reach_the_step_and_nothing_that_goes_home(self, tmp_path: Path) -> None:
        heard = run_with_secret(
            tmp_path / "root",
            "echo $TOKEN; echo $TOKEN > $ORCH_OUT/leak; echo $TOKEN > here; echo ok > fine;"
            ' echo "{\\"metric\\": \\"m\\", \\"value\\": \\"$TOKEN\\"}" >> $ORCH_RESULTS',
        )

        assert log(heard, "leak") == "[secret]\n"
        with zipfile.ZipFile(BytesIO(heard.bundle)) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        assert not [name for name, body in contents.items() if SECRET.encode() in body]
        assert "steps/leak/files/fine" in contents
        assert "steps/leak/out/leak" not in contents
        assert json.loads(contents["steps/leak/results.jsonl"])["value"] == "[secret]"
        assert len(heard.notes("warning")) == 2

    def test_values_are_on_no_disk_of_ours(self, tmp_path: Path) -> None:
        run_with_secret(tmp_path / "root", "test -n $TOKEN")

        holders = [
            path
            for path in (tmp_path / "root").rglob("*")
            if path.is_file() and SECRET.encode() in path.read_bytes()
        ]
        assert holders == []


def run_with_secret(root: Path, script: str) -> Heard:
    with Controller(root) as controller:
        ordered = plan(FILES, job("leak", script, collect=["here", "fine"]), secrets=["TOKEN"])
        controller.push(ordered, FILES, secrets={"TOKEN": SECRET})
        controller.expect("started")
        return controller.follow()


class TestGpus:
    """No GPU is here; what the agent's own listing says is enough to know what would happen."""

    def test_a_host_without_one_fails_the_step_that_wants_one(self, tmp_path: Path) -> None:
        heard = run(tmp_path / "root", FILES, job("one", "true", gpus=1), job("two", "true"))

        assert heard.ended("one")["state"] == "failed"
        assert heard.ended("one")["reason"] == "the step wants 1 GPU, this host shows none"
        assert heard.ended("two")["state"] == "passed"

    def test_a_host_that_cannot_list_them_fails_it_and_says_why(self, tmp_path: Path) -> None:
        listing = "raise environment.ProbeError('the GPUs could not be listed: no answer')"

        heard = run_where(tmp_path, listing)

        assert heard.ended("one")["state"] == "failed"
        assert heard.ended("one")["reason"] == "the GPUs could not be listed: no answer"

    def test_one_in_use_by_nobody_knows_whom_is_not_taken(self, tmp_path: Path) -> None:
        heard = run_where(tmp_path, f"return [{{**{GPU}, 'memory_used': 9 << 30}}]")

        assert heard.ended("one")["state"] == "failed"
        assert "nobody can tell who uses GPU 0 (9216 MiB in use)" in heard.ended("one")["reason"]

    def test_one_that_only_looks_free_is_taken_and_told(self, tmp_path: Path) -> None:
        heard = run_where(tmp_path, f"return [{GPU}]")

        assert heard.ended("one")["state"] == "passed"
        (note,) = heard.notes("warning")
        assert note.startswith("nobody can tell who else uses GPU 0: its processes cannot be seen")

    def test_one_that_is_free_needs_no_word(self, tmp_path: Path) -> None:
        heard = run_where(tmp_path, f"return [{{**{GPU}, 'foreign_pids': []}}]")

        assert heard.ended("one")["state"] == "passed"
        assert heard.ended("one")["tail"] == ["GPU-00000000-1111-2222-3333-444444444444"]
        assert heard.notes("warning") == []

    def test_one_that_the_host_keeps_from_us_is_not_taken(self, tmp_path: Path) -> None:
        """The tools list all GPUs of a shared host, whichever of them an allocation holds."""
        second = "GPU-11111111-1111-2222-3333-444444444444"
        listing = (
            f"return [{{**{GPU}, 'foreign_pids': []}}, "
            f"{{**{GPU}, 'foreign_pids': [], 'index': 1, 'uuid': '{second}'}}]"
        )

        heard = run_where(tmp_path, listing, CUDA_VISIBLE_DEVICES="1")

        assert heard.ended("one")["state"] == "passed"
        assert heard.ended("one")["tail"] == [second]

    def test_a_host_that_keeps_all_from_us_fails_it_and_says_by_what(self, tmp_path: Path) -> None:
        heard = run_where(tmp_path, f"return [{GPU}]", CUDA_VISIBLE_DEVICES="3")

        assert heard.ended("one")["state"] == "failed"
        reason = "the step wants 1 GPU, this host with CUDA_VISIBLE_DEVICES=3 shows none"
        assert heard.ended("one")["reason"] == reason


GPU = {
    "index": 0,
    "uuid": "GPU-00000000-1111-2222-3333-444444444444",
    "name": "H200",
    "memory_total": 140 << 30,
    "memory_used": 0,
    "foreign_pids": None,
}


def run_where(folder: Path, listing: str, **env: str) -> Heard:
    """Run a step that wants a GPU on a host that lists its GPUs so, with `env` of its own."""
    start = folder / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text(
        "from orchestrator.agent import environment\n"
        f"def visible_gpus(deadline_s):\n    {listing}\n"
        "environment.visible_gpus = visible_gpus\n",
        "utf-8",
    )
    wanted = job("one", "echo $CUDA_VISIBLE_DEVICES", gpus=1, timeout_s=1.0)
    path = os.pathsep.join([str(start), str(ROOT)])
    with Controller(folder / "root", PYTHONPATH=path, **env) as controller:
        controller.push(plan(FILES, wanted), FILES)
        controller.expect("started")
        return controller.follow()


class TestCancelling:
    @pytest.mark.parametrize("how", ["word", "signal", "file"])
    def test_ends_the_running_job_and_leaves_the_others_out(self, tmp_path: Path, how: str) -> None:
        jobs = (
            job("one", f"echo begun; touch {tmp_path}/begun; sleep 60", stop=Stop("TERM", 2.0)),
            job("two", "true"),
        )
        with Controller(tmp_path / "root") as controller:
            controller.push(plan(FILES, *jobs), FILES)
            controller.expect("started")
            wait_until((tmp_path / "begun").exists, "the job to begin")
            if how == "word":
                controller.tell("cancel", who="a tester")
            elif how == "signal":
                os.kill(supervisor_pid(controller.run), signal.SIGTERM)
            else:
                Path(controller.run.cancel).write_text("somebody", "ascii")
                os.kill(supervisor_pid(controller.run), signal.SIGCHLD)
            heard = controller.follow()

        assert heard.ended("one")["state"] == "cancelled"
        assert heard.ended("two")["state"] == "cancelled"
        assert heard.events[-1]["cancelled"] is True
        assert log(heard, "one").startswith("begun\n")
