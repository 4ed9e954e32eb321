"""The agent's entrance: greeting, refusals, breakage, and streams kept for the protocol."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestrator.agent import frames, main
from orchestrator.agent.frames import PROTOCOL
from orchestrator.agent.plan import Activation
from orchestrator.link import agentzip
from tests.agent.controller import ROOT, Controller, job, plan, run

FILES = {"a": b"x\n"}


class TestGreeting:
    def test_says_who_it_is(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("list")

            welcome = controller.expect("welcome")

        assert welcome["protocol"] == PROTOCOL
        assert welcome["python"] == sys.version.split()[0]
        assert welcome["host"]

    def test_another_protocol_is_refused(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.tell("hello", protocol=PROTOCOL + 1, action="list", root=str(tmp_path))
            answer = controller.expect("refused")

        assert (answer["code"], answer["text"]) == (
            "protocol",
            f"this agent speaks protocol {PROTOCOL}, not {PROTOCOL + 1}",
        )

    def test_something_else_than_hello_is_refused(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.tell("good day")
            answer = controller.expect("refused")

        assert (answer["code"], answer["text"]) == (
            "FrameError",
            "expected `hello`, got `good day`",
        )

    def test_noise_is_refused(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.write(b"GET / HTTP/1.1\r\n\r\n")
            answer = controller.expect("refused")

        assert answer["code"] == "FrameError"

    def test_a_controller_that_says_nothing_ends_it_quietly(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", "from orchestrator.agent.main import main; main()"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, b"")


class TestBreakage:
    def test_a_bug_is_told_with_its_traceback(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan="not a plan")
            controller.expect("welcome")
            broken = controller.expect("broken")

        assert "JSONDecodeError" in broken["text"]
        assert "Traceback" in broken["traceback"]

    def test_a_root_that_cannot_be_made_is_told_with_its_path(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x", "ascii")
        with Controller(tmp_path / "file" / "root") as controller:
            controller.hello("list")
            controller.expect("welcome")
            refused = controller.expect("refused")

        assert refused["code"] == "os"
        assert str(tmp_path / "file") in refused["text"]

    def test_every_action_has_its_function(self) -> None:
        for place in main.ACTIONS.values():
            module, _, function = place.partition(".")
            assert callable(
                getattr(importlib.import_module(f"orchestrator.agent.{module}"), function)
            )


class TestStreams:
    def test_what_is_printed_by_accident_does_not_reach_the_link(self, tmp_path: Path) -> None:
        heard = run(
            tmp_path,
            FILES,
            job("one", "echo to the log; echo noise > /dev/stdout"),
            activation=Activation(setup="echo printed by set-up"),
        )

        assert heard.ended("one")["tail"] == ["to the log", "noise"]


class TestOldPython:
    """The agent as it travels, under the oldest Python it promises to run on."""

    OLD = Path.home() / ".pyenv/versions/3.8.18/bin/python"

    @pytest.fixture
    def unpacked(self, tmp_path: Path) -> Path:
        if not self.OLD.exists():
            pytest.skip(f"no Python 3.8 at {self.OLD}")
        folder = tmp_path / "agent"
        archive = tmp_path / "agent.zip"
        archive.write_bytes(agentzip.build())
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        return folder

    def test_a_whole_run(self, tmp_path: Path, unpacked: Path) -> None:
        script = "from orch_results import record; record('a', 1.5, 'us', samples=[1, 2])"
        jobs = [
            job("one", ["python3", "-c", script], collect=["*.txt"]),
            job("hang", ["python3", "-c", "import time; time.sleep(60)"], timeout_s=1.0),
            job("write", "echo x > out.txt", collect=["*.txt"]),
        ]
        with Controller(tmp_path / "root", python=str(self.OLD), code=unpacked) as controller:
            controller.push(plan(FILES, *jobs), FILES)
            controller.expect("started")
            heard = controller.follow()

        assert heard.notes("error") == []
        states = [e["state"] for e in heard.events if e["event"] == "step_ended"]
        assert states == ["passed", "timed_out", "passed"]
        assert heard.ended("hang")["stacks"] == 1
        assert heard.ended("one")["results"] == 1
        assert heard.ended("write")["files"] == 1
        assert heard.events[-1]["event"] == "run_ended"

    def test_every_module_can_be_imported(self, unpacked: Path) -> None:
        modules = sorted(
            ".".join(path.relative_to(unpacked).with_suffix("").parts)
            for path in (unpacked / "orchestrator").rglob("*.py")
            if path.name != "__init__.py" and "payload" not in path.parts
        )
        program = f"import importlib, json\nfor name in {modules!r}: importlib.import_module(name)"

        done = subprocess.run(
            [str(self.OLD), "-W", "error", "-c", program],
            cwd=unpacked,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert len(modules) > 50


def test_short_visits_do_not_load_what_a_run_needs(tmp_path: Path) -> None:
    program = """
import json, sys
from orchestrator.agent.main import main
main()
sys.stderr.write(json.dumps(sorted(m for m in sys.modules if m.startswith("orchestrator."))))
"""
    hello = {"type": "hello", "protocol": PROTOCOL, "action": "list", "root": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        input=frames.message(hello),
        capture_output=True,
        timeout=30,
        check=True,
    )

    loaded = json.loads(done.stderr)
    assert "orchestrator.agent.inspect" in loaded
    assert "orchestrator.agent.supervisor" not in loaded
    assert "orchestrator.agent.environment" not in loaded
