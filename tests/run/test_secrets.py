"""Secrets: they reach the step and no disk."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Project


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
