"""`orch run` end to end: real git, real processes, a real sshd."""

from __future__ import annotations

import json
import os
import signal
import time
import zipfile
from pathlib import Path

import pytest

from tests.conftest import COMMAND_DEADLINE_S, Project
from tests.hosts.sshd import SshServer

FIRST = """
experiment: first
timeout: 20s
steps:
  - id: square
    matrix: {n: [3, 4]}
    run: |
      python3 - <<'END'
      import os
      from orch_results import record
      n = int(os.environ["ORCH_POINT_N"])
      record("square", n * n, "1")
      END
  - id: write
    needs: [square]
    run: mkdir -p out && echo {word} > out/word.txt && cat data.txt
    matrix: {word: ["two words"]}
    collect: ["out/**/*.txt"]
ledger: first.ledger.yaml
"""

LEDGER = """
ledger: first
entries:
  - id: square.three
    metric: square
    where: {n: 3}
    unit: "1"
    expect: {value: 9, exact: true}
    because: three times three is nine
    source: closed_form
  - id: square.four
    metric: square
    where: {n: 4}
    unit: "1"
    expect: {interval: [15, 17]}
    because: four times four is about sixteen
    source: closed_form
"""

SLOW = """
experiment: slow
kind: probe
timeout: 60s
env: {GATE: "<gate>"}
steps:
  - id: wait
    run: |
      echo begun
      while [ ! -e "$GATE" ]; do sleep 0.05; done
  - id: after
    run: echo after; echo kept > "$ORCH_OUT/file.txt"
"""


@pytest.fixture
def first(project: Project) -> Project:
    project.write("first.yaml", FIRST)
    project.write("first.ledger.yaml", LEDGER)
    project.write("data.txt", "some data\n")
    return project


@pytest.fixture
def slow(project: Project) -> Project:
    project.write("slow.yaml", SLOW.replace("<gate>", str(project.home / "go")))
    return project


def wait_until(condition: object, what: str) -> None:
    """Wait for something another process does; a deadline instead of a fixed sleep."""
    end = time.monotonic() + COMMAND_DEADLINE_S
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for: {what}")


def begun(project: Project) -> bool:
    logs = list((project.home / ".orch" / "runs").glob("*/steps/wait/log"))
    return bool(logs) and b"begun" in logs[-1].read_bytes()


class TestOnThisMachine:
    def test_passes_when_all_is_as_predicted(self, first: Project) -> None:
        done = first.orch("run", "first.yaml")

        assert done.code == 0, done.text
        assert "2 hit" in done.out
        assert first.record()["state"] == "home"

    def test_what_came_home_verifies_offline(self, first: Project) -> None:
        first.orch("run", "first.yaml")

        assert first.orch("verify", "latest").code == 0
        assert first.orch("verify", str(first.last_run / "bundle.zip")).code == 0

    def test_the_tree_is_the_same_on_both_sides_and_in_the_record(self, first: Project) -> None:
        first.orch("run", "first.yaml")

        tree = first.git("rev-parse", f"refs/orch/{first.last_run.name}^{{tree}}")
        assert first.record()["tree"] == {"local": tree, "host": tree, "object_format": "sha1"}

    def test_collects_what_the_step_wrote(self, first: Project) -> None:
        first.orch("run", "first.yaml")

        folder = first.ended('write[word="two words"]')["folder"]
        wrote = first.last_run / "evidence" / "steps" / folder / "files" / "out" / "word.txt"
        assert wrote.read_text("utf-8") == "two words\n"

    def test_misses_when_a_prediction_is_wrong(self, first: Project) -> None:
        first.write("first.ledger.yaml", LEDGER.replace("value: 9", "value: 8"))

        done = first.orch("run", "first.yaml")

        assert done.code == 1
        assert "miss" in done.out
        verdict = json.loads((first.last_run / "verdict.json").read_text("utf-8"))
        assert verdict["items"][0]["id"] == "square.three"
        assert verdict["items"][0]["status"] == "miss"

    def test_is_not_measured_when_nothing_recorded_the_metric(self, first: Project) -> None:
        first.write("first.ledger.yaml", LEDGER.replace("metric: square", "metric: cube", 1))

        done = first.orch("run", "first.yaml")

        assert done.code == 3
        assert "no step recorded `cube`" in done.out

    def test_json_is_one_object_a_line_and_ends_with_the_verdict(self, first: Project) -> None:
        done = first.orch("run", "first.yaml", "--json")

        lines = [json.loads(line) for line in done.out.splitlines()]
        assert lines[-1]["type"] == "verdict"
        assert lines[-1]["exit_code"] == 0
        assert {line["type"] for line in lines} >= {"stage", "event", "verdict"}

    def test_a_ledger_changed_after_the_run_began_is_refused(self, first: Project) -> None:
        first.orch("run", "first.yaml")
        sealed = first.last_run / "ledger.yaml"
        sealed.write_text(LEDGER.replace("value: 9", "value: 8"), "utf-8")

        shown = first.orch("show", "latest")

        assert shown.code == 3
        assert "was changed after the run began" in shown.err
        assert first.orch("verify", "latest").code == 3


class TestTheWorkingCopyAsItIs:
    def test_the_host_runs_edited_added_deleted_renamed_and_executable_files(
        self, project: Project
    ) -> None:
        project.write("keep.txt", "old\n")
        project.write("gone.txt", "gone\n")
        project.write("before.txt", "moved\n")
        project.write("tool.sh", "#!/bin/sh\necho tool\n")
        project.write("show.yaml", SHOW)
        project.commit()
        project.orch("run", "show.yaml")
        project.write("keep.txt", "new\n")
        project.write("added.txt", "added\n")
        (project.path / "gone.txt").unlink()
        (project.path / "before.txt").rename(project.path / "after.txt")
        (project.path / "tool.sh").chmod(0o755)

        done = project.orch("run", "show.yaml")

        assert done.code == 0, done.text
        log = project.log("show")
        assert "keep.txt:new" in log
        assert "added.txt:added" in log
        assert "after.txt:moved" in log
        assert "gone.txt" not in log
        assert "before.txt" not in log
        assert "executable: ./tool.sh" in log
        diff = project.orch("source", "diff", project.runs[0].name, project.runs[1].name)
        assert "-old" in diff.out
        assert "+new" in diff.out
        assert "new mode 100755" in diff.out

    def test_a_restored_tree_is_the_one_that_was_run(self, project: Project) -> None:
        project.write("show.yaml", SHOW)
        project.write("a b/ü\n.txt", "odd name\n")
        project.orch("run", "show.yaml")
        project.write("a b/ü\n.txt", "changed since\n")

        done = project.orch("source", "restore", "latest", "back")

        assert done.code == 0, done.text
        assert (project.path / "back" / "a b" / "ü\n.txt").read_text("utf-8") == "odd name\n"


SHOW = """
experiment: show
kind: probe
timeout: 20s
steps:
  - id: show
    run: |
      grep -r --exclude-dir=.git '' . | sed 's|^\\./||'
      find . -name '*.sh' -perm -u+x | sed 's/^/executable: /'
"""


class TestOverEveryCarrier:
    @pytest.mark.parametrize("carrier", ["ssh", "openssh"])
    def test_a_real_sshd(self, first: Project, trusted_ssh: SshServer, carrier: str) -> None:
        root = first.home / "remote root"
        first.write("hosts.yaml", trusted_ssh.hosts_yaml("there", carrier, root=root))

        done = first.orch("run", "first.yaml", "--host", "there")

        assert done.code == 0, done.text
        assert first.record()["carrier"] == carrier
        assert (root / "runs" / first.last_run.name / "bundle.zip").is_file()
        assert first.orch("verify", "latest").code == 0

    def test_any_command_that_gives_a_pipe(self, first: Project) -> None:
        first.write(
            "hosts.yaml",
            "hosts:\n  pod:\n    via: [bash, -c, 'echo noise; exec \"$@\"', --]\n",
        )

        done = first.orch("run", "first.yaml", "--host", "pod")

        assert done.code == 0, done.text
        assert first.record()["carrier"] == "via"

    def test_results_are_the_same_but_for_host_facts(
        self, first: Project, trusted_ssh: SshServer
    ) -> None:
        hosts = trusted_ssh.hosts_yaml("there", "ssh", root=first.home / "there")
        first.write("hosts.yaml", hosts)

        here = first.orch("run", "first.yaml")
        there = first.orch("run", "first.yaml", "--host", "there")

        assert here.code == there.code == 0
        assert verdict_items(first.runs[0]) == verdict_items(first.runs[1])
        assert first.record(first.runs[0])["tree"] == first.record(first.runs[1])["tree"]


def verdict_items(run: Path) -> object:
    return json.loads((run / "verdict.json").read_text("utf-8"))["items"]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The experiment that README shows, run once for all tests here."""
    root = Path(__file__).resolve().parent.parent.parent
    base = tmp_path_factory.mktemp("failures")
    (base / "home").mkdir()
    folder = base / "project"
    folder.mkdir()
    env = {"HOME": str(base / "home"), "PYTHONPATH": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    project = Project(folder, base / "home", env)
    project.git("init", "-q")
    for name in ("failures.yaml", "failing.py"):
        project.write(f"experiments/{name}", (root / "experiments" / name).read_bytes())
    done = project.orch("run", "experiments/failures.yaml")
    assert done.code == 1, done.text
    return project


class TestFailures:
    def test_the_log_of_a_hang_ends_with_the_stack_of_the_hanging_line(
        self, failures: Project
    ) -> None:
        log = failures.log("hang")

        stack = log[log.rindex("Current thread") :]
        assert "in wait_for_a_signal_that_never_comes" in stack
        assert stack.rstrip().endswith("in <module>")

    def test_an_escaped_grandchild_is_gone(self, failures: Project) -> None:
        pid = int(failures.log("hang").split("escaped grandchild ")[1].split()[0])

        assert not is_running(pid)

    def test_states_name_what_happened(self, failures: Project) -> None:
        states = {e["id"]: e["state"] for e in failures.events() if e["event"] == "step_ended"}

        assert states == {
            "hang": "timed_out",
            "crash": "failed",
            "refuse": "failed",
            "dependant": "skipped",
            "half-a-pipe": "failed",
            "later": "passed",
        }
        assert failures.ended("crash")["signal"] == "SEGV"
        assert failures.ended("refuse")["exit_code"] == 1

    def test_everything_is_in_the_zip(self, failures: Project) -> None:
        with zipfile.ZipFile(failures.last_run / "bundle.zip") as bundle:
            names = set(bundle.namelist())

        assert {f"steps/{s}/log" for s in ("hang", "crash", "refuse", "half-a-pipe")} <= names
        assert "steps/later/files/later.txt" in names
        assert {"environment.before.json", "environment.after.json", "journal.jsonl"} <= names


def is_running(pid: int) -> bool:
    try:
        state = (
            Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
        )
    except FileNotFoundError:
        return False
    return state != "Z"


class TestWhenTheLaptopGoesAway:
    def test_a_killed_controller_changes_nothing_on_the_host(
        self, slow: Project, trusted_ssh: SshServer
    ) -> None:
        hosts = trusted_ssh.hosts_yaml("there", "ssh", root=slow.home / ".orch")
        slow.write("hosts.yaml", hosts)
        controller = slow.start("run", "slow.yaml", "--host", "there")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)

        early = slow.orch("fetch", "latest")
        (slow.home / "go").touch()
        attached = slow.orch("attach", "latest")

        assert early.code == 3
        assert "still running" in early.err
        assert attached.code == 0, attached.text
        assert slow.orch("verify", "latest").code == 0
        assert slow.log("after") == "after\n"

    def test_a_run_that_ended_meanwhile_is_fetched_complete(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)
        (slow.home / "go").touch()
        host_bundle = slow.home / ".orch" / "runs" / slow.last_run.name / "bundle.json"
        wait_until(host_bundle.exists, "the run to end on the host")

        done = slow.orch("fetch", "latest")

        assert done.code == 0, done.text
        assert (slow.last_run / "evidence" / "steps" / "after" / "out" / "file.txt").is_file()
        assert slow.orch("verify", "latest").code == 0

    def test_gc_on_the_host_keeps_it_until_it_is_home(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        controller.kill()
        controller.communicate(timeout=COMMAND_DEADLINE_S)
        (slow.home / "go").touch()
        run_id = slow.last_run.name
        there = slow.home / ".orch" / "runs" / run_id
        wait_until((there / "bundle.json").exists, "the run to end on the host")
        sweep = ("gc", "--host", "local", "--older-than", "1ms")

        kept = slow.orch(*sweep)
        would = slow.orch(*sweep, "--unfetched", "--dry-run")
        fetched = slow.orch("fetch", run_id)
        wait_until((there / "sent_home").exists, "the host to hear that it is home")
        gone = slow.orch(*sweep)

        assert f"kept {run_id}: never brought home; `orch fetch {run_id}" in kept.out
        assert f"would remove {run_id}" in would.out
        assert fetched.code == 0, fetched.text
        assert f"removed {run_id}" in gone.out
        assert not there.exists()

    def test_a_cut_link_is_mended_and_nothing_is_lost(
        self, slow: Project, trusted_ssh: SshServer
    ) -> None:
        hosts = trusted_ssh.hosts_yaml("there", "ssh", root=slow.home / ".orch")
        slow.write("hosts.yaml", hosts)
        controller = slow.start("run", "slow.yaml", "--host", "there")
        wait_until(lambda: begun(slow), "the first step to begin")

        trusted_ssh.drop_connections()
        (slow.home / "go").touch()
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 0, out + err
        assert "the link broke" in out
        assert "the link holds again" in out
        assert slow.orch("verify", "latest").code == 0

    def test_ctrl_c_detaches_and_says_how_to_go_on(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")

        controller.send_signal(signal.SIGINT)
        out, _ = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 130
        assert f"orch attach {slow.last_run.name}" in out
        assert f"orch cancel {slow.last_run.name}" in out
        assert slow.orch("cancel", "latest").code == 0
        assert slow.orch("attach", "latest").code == 6

    def test_a_second_ctrl_c_cancels_and_still_brings_everything_home(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")

        controller.send_signal(signal.SIGINT)
        time.sleep(0.3)
        controller.send_signal(signal.SIGINT)
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 6, out + err
        assert slow.ended("wait")["state"] == "cancelled"
        assert slow.ended("after")["state"] == "cancelled"
        assert slow.orch("verify", "latest").code == 0

    def test_a_killed_supervisor_is_host_lost_not_failed(self, slow: Project) -> None:
        controller = slow.start("run", "slow.yaml")
        wait_until(lambda: begun(slow), "the first step to begin")
        host_folder = slow.home / ".orch" / "runs" / slow.last_run.name
        pid = json.loads((host_folder / "supervisor.json").read_text("utf-8"))["pid"]

        os.kill(pid, signal.SIGKILL)
        out, err = controller.communicate(timeout=COMMAND_DEADLINE_S)

        assert controller.returncode == 3, out + err
        assert slow.ended("wait")["state"] == "host_lost"
        assert slow.ended("after")["state"] == "not_started"
        assert slow.orch("verify", "latest").code == 0


class TestSecrets:
    SECRET = "hunter2-but-longer"
    EXPERIMENT = """
experiment: secretive
kind: probe
timeout: 20s
secrets: [MY_TOKEN]
steps:
  - id: leak
    run: |
      echo "token: $MY_TOKEN"
      printf '%s' "$MY_TOKEN" | head -c 5; sleep 0.2; printf '%s' "$MY_TOKEN" | tail -c +6; echo
      printf '%s' "$MY_TOKEN" > leaked.txt
      echo fine > fine.txt
    collect: ["*.txt"]
"""

    def test_values_reach_the_step_and_no_disk(self, project: Project) -> None:
        project.write("secretive.yaml", self.EXPERIMENT)

        done = project.orch("run", "secretive.yaml", MY_TOKEN=self.SECRET)

        assert done.code == 0, done.text
        assert "token: [secret]" in project.log("leak")
        for top in (project.path / "artifacts", project.home / ".orch"):
            holders = [p for p in top.rglob("*") if p.is_file() and holds(p, self.SECRET)]
            # The step itself wrote one file into its own tree; nothing of ours holds the value.
            assert [p.name for p in holders] in ([], ["leaked.txt"])
            assert all("tree" in p.parts for p in holders)
        files = project.last_run / "evidence" / "steps" / "leak" / "files"
        assert [p.name for p in files.iterdir()] == ["fine.txt"]

    def test_an_unset_secret_is_told_before_anything_runs(self, project: Project) -> None:
        project.write("secretive.yaml", self.EXPERIMENT)

        done = project.orch("run", "secretive.yaml")

        assert done.code == 2
        assert "the secret `MY_TOKEN` is not set" in done.err
        assert project.runs == []


def holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


class TestGuards:
    def test_a_guard_of_a_step_catches_a_default_device_on_the_host(self, project: Project) -> None:
        """A tensor lands on a device nobody named: the first pitfall, caught where it runs."""
        pytest.importorskip("torch")
        project.write("worker.py", "import torch\n\n\ndef table():\n    return torch.zeros(4)\n")
        project.write(
            "main.py",
            "import torch\n\nimport worker\n\n"
            "torch.set_default_device('meta')\nprint(worker.table().device)\n",
        )
        project.write(
            "guarded.yaml",
            "experiment: guarded\nkind: probe\ntimeout: 60s\nsteps:\n"
            "  - {id: free, run: python3 main.py}\n"
            "  - {id: guarded, guards: [implicit-device], run: python3 main.py}\n",
        )

        done = project.orch("run", "guarded.yaml", "--no-preflight")

        assert done.code == 1, done.text
        assert project.ended("free")["state"] == "passed"
        assert project.ended("guarded")["exit_code"] == 86
        assert "worker.py:5" in project.log("guarded")
        assert project.record()["preflight"] == {
            "ran": False,
            "errors": 0,
            "warnings": 0,
            "suppressed": 0,
        }


class TestPreflight:
    BAD = "import torch\n\ntorch.set_default_device('cuda')\n"

    def test_an_error_in_what_a_step_runs_refuses_the_run(self, project: Project) -> None:
        project.write("worker.py", self.BAD)
        project.write(
            "bad.yaml",
            "experiment: bad\nkind: probe\ntimeout: 60s\n"
            "steps:\n  - {id: a, run: python3 worker.py}\n",
        )

        refused = project.orch("run", "bad.yaml")
        by_force = project.orch("run", "bad.yaml", "--no-preflight")

        assert refused.code == 4
        assert "worker.py:3:1: error[default-device-set]" in refused.err
        assert by_force.code in (0, 1)
        assert len(project.runs) == 1
