"""`orch run` end to end: real git, real processes, a real sshd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Project
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


@pytest.fixture
def first(project: Project) -> Project:
    project.write("first.yaml", FIRST)
    project.write("first.ledger.yaml", LEDGER)
    project.write("data.txt", "some data\n")
    return project


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
