from __future__ import annotations

import pytest

from orchestrator.agent.environment import hy_smi
from orchestrator.agent.environment.catalogue import GPU_KEYS

from .conftest import fixture_files, fixture_text


def test_the_table_of_an_idle_host() -> None:
    gpus = hy_smi.parse_table(fixture_text("hygon/hy-smi-table-k100x8.txt"))

    assert [gpu["index"].value for gpu in gpus] == list(range(8))
    assert [gpu["power_draw"].value for gpu in gpus][:3] == [96, 96, 95]
    assert {gpu["power_limit"].value for gpu in gpus} == {300}
    assert {gpu["utilization"].value for gpu in gpus} == {0}
    assert gpus[0]["temperature"].value == 53


def test_eight_watts_under_load_are_not_believed() -> None:
    gpus = hy_smi.parse_table(fixture_text("hygon/hy-smi-table-busy-x8.txt"))

    assert {gpu["power_draw"].state for gpu in gpus} == {"unknown"}
    assert "8 W of 600 W at 74 % use" in gpus[0]["power_draw"].detail
    assert [gpu["utilization"].value for gpu in gpus][:2] == [74, 29]


def test_a_mode_that_is_not_available_is_no_mode() -> None:
    gpus = hy_smi.parse_table(fixture_text("hygon/hy-smi-table-mode-na-x4.txt"))

    assert {gpu["partition"].state for gpu in gpus} == {"not_applicable"}
    assert gpus[2]["power_draw"].value == 22


def test_json_without_its_commas_is_read() -> None:
    cards = hy_smi.parse_all(fixture_text("hygon/hy-smi-MALFORMED.json"))

    first = hy_smi.card_readings(0, cards[0])
    values = {key: reading.value for key, reading in first.items()}
    assert set(values) <= set(GPU_KEYS)
    assert list(cards) == [0, 1]
    assert (values["name"], values["power_draw"], values["temperature"]) == ("BW", 91, 57)
    assert values["memory_total"] == 65520 << 20
    assert values["memory_used"] == 64169 << 20
    assert (values["clock_sm"], values["clock_mem"], values["utilization"]) == (1350, 1800, 0)
    assert values["temperature_memory"] == 51
    assert first["uuid"].state == "unknown"
    assert hy_smi.card_readings(1, cards[1])["power_draw"].value == 84


@pytest.mark.parametrize("unit", ["B", "MiB"])
@pytest.mark.parametrize("name", ["DCU", "HCU", "GPU"])
def test_keys_of_every_release_are_understood(name: str, unit: str) -> None:
    text = f'noise\n{{"card0": {{"{name} use (%)": "31", "vram Total Memory ({unit})": "1024"}}}}'

    found = hy_smi.card_readings(0, hy_smi.parse_all(text)[0])

    assert found["utilization"].value == 31
    assert found["memory_total"].value == (1024 if unit == "B" else 1 << 30)


def test_commas_that_are_there_are_left_alone() -> None:
    text = '{"card0": {"a": "", "b": "x\\"y", "": "", "c": "1"}}'

    assert hy_smi.parse_all(text) == {0: {"a": "", "b": 'x"y', "c": "1"}}


@pytest.mark.parametrize("name", fixture_files("hygon/*"))
def test_no_output_of_the_tool_is_left_untried(name: str) -> None:
    text = fixture_text(name)

    if "table" in name:
        assert hy_smi.parse_table(text)
    elif name.endswith(".json"):
        assert hy_smi.parse_all(text)
    else:
        with pytest.raises(ValueError, match="no table"):
            hy_smi.parse_table(text)
        with pytest.raises(ValueError, match="no JSON"):
            hy_smi.parse_all(text)


@pytest.mark.parametrize("text", ["", "{", '{"card0": {"a": "1"', '{"system": {}}', "{}"])
def test_what_stays_damaged_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        hy_smi.parse_all(text)


def test_a_row_that_does_not_fit_its_header_is_refused() -> None:
    text = "DCU  Temp  AvgPwr\n0  53.0C\n"

    with pytest.raises(ValueError, match="2 cells below 3 names"):
        hy_smi.parse_table(text)


@pytest.mark.parametrize("cell", ["N/A", "ERR!", "-"])
def test_a_missing_cell_is_no_value(cell: str) -> None:
    (gpu,) = hy_smi.parse_table(
        f"DCU Temp AvgPwr Perf PwrCap DCU% Mode\n0 {cell} {cell} {cell} {cell} {cell} {cell}"
    )

    assert [key for key, reading in gpu.items() if reading.known] == ["index"]


def test_the_driver_version_is_found_in_the_text() -> None:
    assert hy_smi.driver_version("Driver Version: 6.3.31-V1.5.0a").value == "6.3.31-V1.5.0a"
    assert hy_smi.driver_version("nothing of the kind").state == "unknown"
