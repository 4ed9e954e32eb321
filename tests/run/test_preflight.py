"""The linter in a run: before it starts, and as a guard on the host."""

from __future__ import annotations

import pytest

from tests.conftest import Project


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
