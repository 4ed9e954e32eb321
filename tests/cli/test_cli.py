"""The command line as people meet it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Project

FIRST_LINES = ["run", "plan", "schema", "init", "ls", "show", "logs", "attach", "fetch", "cancel"]


def modules_loaded(*arguments: str) -> set[str]:
    """Names of the modules that a command has imported when it ends."""
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(sys.modules)))\n"
        f"sys.argv = {['orch', *arguments]!r}\n"
        "from orchestrator.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--help")])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = modules_loaded(*arguments)

    assert "orchestrator.cli" in loaded
    heavy = {"torch", "triton", "fabric", "paramiko", "invoke", "rich", "numpy", "jinja2"}
    assert heavy & loaded == set()


def test_help_names_every_command(project: Project) -> None:
    done = project.orch("--help")

    assert done.code == 0
    assert all(f"  {name} " in done.out for name in FIRST_LINES)


def test_version(project: Project) -> None:
    assert project.orch("--version").out.startswith("orch 0.")


def test_a_new_project_runs_at_once(project: Project) -> None:
    started = project.orch("init")
    ran = project.orch("run", "experiments/first.yaml")

    assert started.code == 0
    assert ran.code == 0, ran.text
    assert "1 hit" in ran.out
    assert project.git("check-attr", "eol", "x.sh") == "x.sh: eol: lf"
    assert "artifacts" not in project.git("status", "--porcelain", "--ignored=no")


def test_init_keeps_what_is_there(project: Project) -> None:
    project.write("hosts.yaml", "hosts:\n  mine: {local: true}\n")
    project.write(".gitattributes", "*.py text eol=lf\n# mine\n")

    project.orch("init")
    again = project.orch("init")

    assert "mine" in (project.path / "hosts.yaml").read_text("utf-8")
    attributes = (project.path / ".gitattributes").read_text("utf-8")
    assert attributes.count("*.py") == 1
    assert "# mine" in attributes
    assert "wrote" not in again.out


PLANNED = """
experiment: planned
kind: probe
steps:
  - {id: b, needs: [a], timeout: 10s, run: "true"}
  - id: a
    timeout: 60s
    gpus: 2
    matrix: {n: [1, 2]}
    run: |
      echo {n}
      echo more
"""


def test_plan_shows_jobs_and_worst_case_without_a_host(project: Project) -> None:
    project.write("planned.yaml", PLANNED)

    shown = project.orch("plan", "planned.yaml")
    as_json = json.loads(project.orch("plan", "planned.yaml", "--json").out)

    assert shown.code == 0
    assert shown.out.index("a[n=1]") < shown.out.index("b  after a")
    assert "(deadline 1 m 00 s, 2 GPUs)" in shown.out
    assert "worst-case wall time 2 m 55 s; on this machine" in shown.out
    assert as_json["worst_case_s"] == 175
    assert [job["id"] for job in as_json["jobs"]] == ["a[n=1]", "a[n=2]", "b"]
    assert (as_json["host"], as_json["carrier"]) == ("local", "local")
    assert not (project.home / ".orch").exists()


def test_plan_warns_of_a_host_that_nobody_names_and_refuses_a_wrong_file(project: Project) -> None:
    project.write("planned.yaml", PLANNED.replace("kind: probe", "kind: probe\nhost: gpu2"))

    project.write("hosts.yaml", "hosts:\n  gpu1: {ssh: somewhere}\n")
    unknown = project.orch("plan", "planned.yaml", "--json")
    project.write("hosts.yaml", "hosts:\n  gpu2: {ssh: somewhere}\n")
    known = project.orch("plan", "planned.yaml")
    project.write("hosts.yaml", "hosts:\n  gpu2: {shh: somewhere}\n")
    wrong = project.orch("plan", "planned.yaml")

    assert unknown.code == 0
    assert "warning: planned.yaml:4:7: no host is named `gpu2`" in unknown.err
    assert "did you mean `gpu1`?" in unknown.err
    assert json.loads(unknown.out)["carrier"] is None
    assert known.out.rstrip().endswith("; on gpu2 (ssh)")
    assert wrong.code == 2
    assert "hosts.yaml:2:" in wrong.err


@pytest.mark.parametrize("kind", ["directory", "link to nothing", "link to itself", "pipe"])
def test_plan_refuses_hosts_that_are_no_file(project: Project, kind: str) -> None:
    project.write("planned.yaml", PLANNED)
    path = project.path / "hosts.yaml"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere" if kind == "link to nothing" else "hosts.yaml")

    done = project.orch("plan", "planned.yaml")

    assert done.code == 2
    assert "hosts.yaml: this is no file" in done.err


@pytest.mark.parametrize("name", ['""', '"\\e[31mX"', '"h\\nx"', "5"])
def test_plan_refuses_a_name_that_no_host_can_have(project: Project, name: str) -> None:
    project.write("planned.yaml", PLANNED.replace("kind: probe", f"kind: probe\nhost: {name}"))

    done = project.orch("plan", "planned.yaml")

    assert done.code == 2
    assert "planned.yaml:4:7:" in done.err
    assert "\x1b" not in done.text


def test_schema_prints_one_or_writes_all(project: Project) -> None:
    one = project.orch("schema", "ledger")
    wrong = project.orch("schema", "ledgre")
    all_three = project.orch("schema", "-o", "schemas")

    assert json.loads(one.out)["title"] == "Ledger"
    assert wrong.code == 2
    assert "did you mean `ledger`?" in wrong.err
    assert len(all_three.out.splitlines()) == 3


TWO = """
experiment: two
kind: probe
timeout: 20s
steps:
  - {id: good, run: echo fine}
  - {id: bad, run: echo reason; exit 7}
"""


@pytest.fixture
def ran(project: Project) -> Project:
    project.write("two.yaml", TWO)
    project.orch("run", "two.yaml")
    return project


def test_runs_are_found_by_id_beginning_path_and_latest(ran: Project) -> None:
    run_id = ran.last_run.name

    for name in (run_id, run_id[:-2], "latest", str(ran.last_run)):
        assert ran.orch("show", name).code == 1
    unknown = ran.orch("show", "2001")
    assert unknown.code == 2
    assert "orch ls" in unknown.err


def test_an_ambiguous_beginning_lists_what_it_could_be(ran: Project) -> None:
    ran.orch("run", "two.yaml")

    done = ran.orch("show", "20")

    assert done.code == 2
    assert all(run.name in done.err for run in ran.runs)


def test_logs_choose_what_did_not_pass(ran: Project) -> None:
    assert ran.orch("logs", "latest").out == "reason\n"
    assert ran.orch("logs", "latest", "good").out == "fine\n"
    assert ran.orch("logs", "latest", "nobody").code == 2


def test_ls_tells_state_and_exit_code(ran: Project) -> None:
    line = ran.orch("ls").out
    as_json = json.loads(ran.orch("ls", "--json").out)
    on_host = ran.orch("ls", "--host", "local").out

    assert "home" in line
    assert "exit 1" in line
    assert as_json["exit_code"] == 1
    assert f"{ran.last_run.name}  ended  2/2 jobs" in on_host


def test_ls_tells_of_a_run_that_came_home_and_was_never_judged(ran: Project) -> None:
    """As one whose ledger was changed while it ran: its steps passed, and no more is known."""
    record = ran.last_run / "run.json"
    told = {**json.loads(record.read_text("utf-8")), "exit_code": None}
    record.write_text(json.dumps(told), "utf-8")

    assert "home  no verdict" in ran.orch("ls").out


def test_another_laptop_can_take_a_run_over(ran: Project) -> None:
    run_id = ran.last_run.name
    (ran.path / "artifacts").rename(ran.path / "gone")

    attached = ran.orch("attach", run_id[:-1], "--host", "local")

    assert attached.code == 1, attached.text
    assert ran.last_run.name == run_id
    assert ran.orch("verify", run_id).code == 0


def test_gc_removes_what_is_old_and_home(ran: Project) -> None:
    run_id = ran.last_run.name

    young = ran.orch("gc")
    would = ran.orch("gc", "--older-than", "1ms", "--dry-run")
    host_would = ran.orch("gc", "--older-than", "1ms", "--dry-run", "--host", "local")
    host = ran.orch("gc", "--older-than", "1ms", "--keep-bytes", "0B", "--host", "local")
    here = ran.orch("gc", "--older-than", "1ms")

    assert young.out == ""
    assert would.out == f"would remove {run_id}\n"
    assert f"would remove {run_id}" in host_would.out
    assert f"removed {run_id}" in host.out
    assert here.out == f"removed {run_id}\n"
    assert ran.runs == []
    assert list((ran.home / ".orch" / "runs").iterdir()) == []
    assert ran.git("for-each-ref", "refs/orch/") == ""


def test_gc_leaves_a_run_alone_that_is_not_home(ran: Project) -> None:
    record = json.loads((ran.last_run / "run.json").read_text("utf-8"))
    record["state"] = "running"
    (ran.last_run / "run.json").write_text(json.dumps(record), "utf-8")

    ran.orch("gc", "--older-than", "1ms")

    assert len(ran.runs) == 1


def test_a_damaged_record_hides_no_other_run_and_is_not_removed(ran: Project) -> None:
    whole = ran.last_run
    damaged = whole.with_name("20250101-000000-old-aaaa")
    damaged.mkdir()
    (damaged / "run.json").write_text("{", "utf-8")

    listed = ran.orch("ls")
    ran.orch("gc", "--older-than", "1ms")

    assert listed.code == 0
    assert whole.name in listed.out
    assert f"{damaged.name}  damaged" in listed.err
    assert ran.runs == [damaged]


def test_a_damaged_run_on_the_host_is_listed_with_what_is_wrong(ran: Project) -> None:
    (ran.home / ".orch" / "runs" / ran.last_run.name / "plan.json").write_text("{", "utf-8")

    listed = ran.orch("ls", "--host", "local")

    assert listed.code == 0
    assert f"{ran.last_run.name}  ended" in listed.out
    assert "damaged: its journal or its plan cannot be read" in listed.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_output_that_cannot_be_written_is_told_in_one_line(project: Project) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            project.command("schema", "experiment"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            cwd=project.path,
        )

    assert done.returncode == 2
    assert done.stderr == "orch: cannot write the output: No space left on device\n"


def test_an_artifacts_directory_that_cannot_be_made_is_told(project: Project) -> None:
    project.write("artifacts", "a file where the directory should be")
    project.write("planned.yaml", PLANNED.replace("gpus: 2", "gpus: 0"))

    done = project.orch("run", "planned.yaml", "--no-preflight")

    assert done.code == 2
    assert "cannot make" in done.err
    assert "ORCH_ARTIFACTS" in done.err
    assert "Traceback" not in done.text


def test_unsent_lists_what_does_not_travel(project: Project) -> None:
    project.write(".gitignore", "*.log\nbuild/\n")
    project.write("a.log", "x")
    project.write("build/b.o", "x")

    assert project.orch("source", "unsent").out.split() == ["a.log", "build/"]


def test_a_broken_pipe_is_quiet(ran: Project) -> None:
    command = " ".join(f"'{word}'" for word in ran.command("schema"))

    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"],
        cwd=ran.path,
        env={**ran.env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr


def test_outside_a_repository_says_what_to_do(tmp_path: Path, project: Project) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "two.yaml").write_text(TWO, "utf-8")
    outside = Project(folder, project.home, project.env)

    done = outside.orch("run", "two.yaml")

    assert done.code == 2
    assert "git init" in done.err


def test_a_bug_of_ours_is_told_apart_from_the_users_mistakes(project: Project) -> None:
    program = (
        "import sys\n"
        "sys.argv = ['orch', 'ls']\n"
        "from orchestrator.cli import looking, main\n"
        "looking.rundir.run_dirs = None\n"
        "main()\n"
    )

    done = _program(project, program)

    assert done.returncode == 70
    assert "`orch` is broken; report this" in done.stderr
    assert "Traceback" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody delete a directory in use")
def test_a_deleted_current_directory_is_told_in_a_line(project: Project) -> None:
    program = (
        "import os, sys\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "sys.argv = ['orch', 'ls']\n"
        "from orchestrator.cli import main\n"
        "main()\n"
    )

    done = _program(project, program)

    assert done.returncode == 2
    assert done.stderr == (
        "orch: the current directory has been deleted; fix: change to one that exists\n"
    )


def test_ctrl_c_before_a_command_has_begun_shows_no_traceback(project: Project) -> None:
    program = (
        "import os, signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'orchestrator.cli.app':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "sys.argv = ['orch', 'ls']\n"
        "from orchestrator.cli import main\n"
        "main()\n"
    )

    done = _program(project, program)

    assert done.returncode == 130
    assert done.stderr == ""


def _program(project: Project, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=project.path,
        env={**project.env, "PATH": "/usr/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_an_experiment_that_never_ends_is_refused(
    project: Project, command: str, kind: str
) -> None:
    os.mkfifo(project.path / "pipe.yaml")

    done = project.orch(command, "pipe.yaml" if kind == "pipe" else "/dev/zero")

    assert done.code == 2
    assert "this is no file; expected a plain file" in done.err
