from __future__ import annotations

import pytest

from orchestrator.agent.environment import jetson
from orchestrator.agent.environment.catalogue import GPU_KEYS
from orchestrator.agent.environment.probe import Deadline

from .conftest import FakeHost, fixture_text


def lines() -> list[str]:
    return [line for line in fixture_text("jetson/tegrastats-all-boards.txt").splitlines() if line]


def test_every_line_of_every_board_is_read() -> None:
    assert len(lines()) == 12
    for line in lines():
        found = jetson.parse_line(line)
        used, total = line.split("RAM ")[1].split("MB")[0].split("/")

        assert found["memory_total"].value == int(total) << 20
        assert found["memory_used"].value == int(used) << 20
        assert found["utilization"].known == ("GR3D_FREQ" in line)
        assert not [key for key, reading in found.items() if reading.state == "error"]


def test_a_sensor_that_is_off_or_broken_is_no_temperature() -> None:
    orin = next(line for line in lines() if "GPU@-256C" in line)
    broken = next(line for line in lines() if "GPU@-51C" in line)

    assert jetson.parse_line(orin)["temperature"].state == "unknown"
    assert jetson.parse_line(broken)["temperature"].state == "unknown"


def test_use_clock_temperature_and_power() -> None:
    tx2 = next(line for line in lines() if "GR3D_FREQ 41%@140" in line)

    found = {key: reading.value for key, reading in jetson.parse_line(tx2).items()}

    assert (found["utilization"], found["clock_sm"], found["temperature"]) == (41, 140, 28)
    assert (found["power_draw"], found["power_draw_average"]) == (0.076, 0.076)


def test_power_with_its_unit_beside_it() -> None:
    orin = next(line for line in lines() if "VDD_GPU_SOC 2390mW/2390mW" in line)

    assert jetson.parse_line(orin)["power_draw"].value == 2.39


def test_a_board_that_tells_no_power_has_none() -> None:
    tx1 = lines()[0]

    found = jetson.parse_line(tx1)

    assert found["power_draw"].state == "unknown"
    assert found["utilization"].state == "unknown"


def test_other_text_is_refused() -> None:
    with pytest.raises(ValueError, match="no line of tegrastats"):
        jetson.parse_line("bash: tegrastats: command not found")


def test_a_tool_that_prints_for_ever_is_stopped_after_its_first_line(fake_host: FakeHost) -> None:
    fake_host.file(
        "/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic"
    )
    fake_host.file("/proc/device-tree/model", "NVIDIA Jetson AGX Orin\0")
    fake_host.tool("tegrastats", f"while :; do echo '{lines()[-1]}'; sleep 0.1; done")

    findings = jetson.look(fake_host.surroundings, Deadline(10))

    (gpu,) = findings.gpus
    assert set(gpu) == set(GPU_KEYS)
    assert gpu["name"].value == "NVIDIA Jetson AGX Orin"
    assert gpu["utilization"].value == 41
    assert findings.driver["driver.version"].value == "L4T 36.4.3"
    assert not findings.hung


def test_the_board_is_there_when_its_tool_is_not(fake_host: FakeHost) -> None:
    fake_host.file("/proc/device-tree/model", "NVIDIA Jetson Nano\0")

    findings = jetson.look(fake_host.surroundings, Deadline(5))

    assert findings.gpus[0]["name"].value == "NVIDIA Jetson Nano"
    assert findings.gpus[0]["utilization"].detail == "tegrastats is not installed"
