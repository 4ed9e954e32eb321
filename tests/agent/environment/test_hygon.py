from __future__ import annotations

from orchestrator.agent.environment import hygon
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.probe import Deadline

from .conftest import FakeHost, fixture_text


def test_table_and_json_are_joined(fake_host: FakeHost) -> None:
    tool = fake_host.printing(
        "hy-smi",
        {
            "": "DCU Temp AvgPwr Perf PwrCap DCU% Mode\n0 53.0C 91.0W auto 600.0W 0% Normal\n"
            "1 54.0C 84.0W auto 600.0W 0% Normal\n",
            "-a --json": fixture_text("hygon/hy-smi-MALFORMED.json"),
            "--showdriverversion": "Driver Version: 6.3.31-V1.5.0a\n",
            "--showpids": "no process\n",
            "--showtopo": "HCU[0] Numa Node 0\n",
        },
    )

    findings = hygon.look(str(tool), Deadline(20))

    assert len(findings.gpus) == 2
    assert set(findings.gpus[0]) == set(GPU_KEYS)
    assert findings.gpus[1]["power_limit"].value == 600
    assert findings.gpus[1]["memory_used"].value == 64104 << 20
    assert findings.gpus[0]["processes"].state == "unknown"
    assert findings.driver["driver.version"].value == "6.3.31-V1.5.0a"
    assert {output.file for output in findings.outputs} == {
        "hy-smi.txt",
        "hy-smi-all.json",
        "hy-smi-driverversion.txt",
        "hy-smi-pids.txt",
        "hy-smi-topo.txt",
    }


def test_a_table_alone_still_lists_the_cards(fake_host: FakeHost) -> None:
    tool = fake_host.printing("hy-smi", {"": fixture_text("hygon/hy-smi-table-k100x8.txt")})

    findings = hygon.look(str(tool), Deadline(20))

    assert len(findings.gpus) == 8
    assert findings.gpus[0]["memory_total"].state == "error"
    assert "hy-smi -a --json ended with exit status 2" in findings.gpus[0]["memory_total"].detail


def test_a_tool_that_prints_garbage_tells_of_no_card(fake_host: FakeHost) -> None:
    tool = fake_host.tool("hy-smi", "echo 'bash: hy-smi: command not found...'; exit 127")

    findings = hygon.look(str(tool), Deadline(20))

    assert findings.gpus == []
    assert findings.failure is not None
    assert "command not found" in findings.failure.detail
